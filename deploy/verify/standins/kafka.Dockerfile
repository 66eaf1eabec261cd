# Stands in for apache/kafka: the jars of the same version, its paths, its user, its start.
FROM memsieve-verify/debian
RUN useradd --create-home --shell /bin/bash appuser \
    && install -d -o appuser -g appuser /etc/kafka/docker /mnt/shared/config /opt/kafka/config \
    && install -d -o appuser -g root /etc/kafka/secrets /var/lib/kafka/data \
    && touch /etc/kafka/docker/server.properties
COPY jars /opt/kafka/libs
COPY kafka-run /etc/kafka/docker/run
COPY kafka-broker-api-versions.sh /opt/kafka/bin/
USER appuser
VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]
EXPOSE 9092
CMD ["/etc/kafka/docker/run"]
