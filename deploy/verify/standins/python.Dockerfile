# Stands in for python:3.12-slim: Debian's Python with its venv module, on the same Debian.
FROM memsieve-verify/debian
# What pip needs to reach the package index from this machine, if anything.
COPY trust/ /etc/
RUN ln -s python3 /usr/bin/python
CMD ["python"]
