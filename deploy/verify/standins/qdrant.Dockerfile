# Stands in for qdrant/qdrant: the part of its REST API that memsieve uses (tests/standin), from the
# engine of Qdrant that memsieve's own image has. No gRPC.
ARG MEMSIEVE
FROM ${MEMSIEVE}
USER 0:0
ENV PYTHONPATH=/qdrant/source
WORKDIR /qdrant
COPY standin /qdrant/source/tests/standin
COPY qdrant-run /qdrant/entrypoint.sh
EXPOSE 6333 6334
ENTRYPOINT []
CMD ["./entrypoint.sh"]
