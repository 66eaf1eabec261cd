#!/bin/sh
# shellcheck disable=SC2086 # these are several words
exec java ${KAFKA_HEAP_OPTS:--Xmx256M} -cp '/opt/kafka/libs/*' \
    org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
