# syntax=docker/dockerfile:1
# Two stages on one base: the first has pip and the sources, the second only what runs. amd64 and arm64 alike: every
# dependency is installed from a wheel, so nothing is compiled and no compiler is needed.
#   docker build -t tandem-scheduler:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t tandem-scheduler:0.1.0 .
# The base is named by the digest of its multi-architecture index, so that the same bytes are built on whatever the tag
# points at by then. Dependabot (.github/dependabot.yml) renews tag and digest, in both lines at once; by hand:
#   docker buildx imagetools inspect python:3.11.14-slim-bookworm --format '{{.Manifest.Digest}}'

FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN ["python", "-m", "venv", "/opt/tandem"]
# Dependencies before sources: they change less often.
COPY requirements-runtime.txt requirements-build.txt ./
RUN ["/opt/tandem/bin/python", "-m", "pip", "install", "--only-binary=:all:", "--require-hashes", "--requirement=requirements-runtime.txt"]
RUN ["python", "-m", "pip", "install", "--only-binary=:all:", "--require-hashes", "--requirement=requirements-build.txt"]
COPY pyproject.toml setup.py README.md LICENSE ./
COPY scheduler ./scheduler
# Files are compiled here, since the image's file system is read-only when it runs; pip itself stays behind.
RUN ["python", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir=/build/wheel", "."]
RUN ["/opt/tandem/bin/python", "-m", "pip", "install", "--no-deps", "--no-index", "--find-links=/build/wheel", "tandem-scheduler"]
RUN ["/opt/tandem/bin/python", "-m", "pip", "uninstall", "--yes", "setuptools", "pip"]
RUN ["/opt/tandem/bin/python", "-m", "compileall", "-q", "/opt/tandem/lib"]

FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d
# Of a release: its tag and its commit.
ARG VERSION=development
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Tandem" \
      org.opencontainers.image.description="A second scheduler for Kubernetes that decides as kube-scheduler 1.36" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="https://tandem-scheduler.example/source/" \
      org.opencontainers.image.documentation="https://tandem-scheduler.example/docs/"
COPY --from=build /opt/tandem /opt/tandem
# Nothing may be written at run time: no home folder.
ENV PATH=/opt/tandem/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/nonexistent
WORKDIR /opt/tandem
# A number, so that Kubernetes can check runAsNonRoot; the user needs no entry in /etc/passwd.
USER 65532:65532
EXPOSE 10259
STOPSIGNAL SIGTERM
# Isolated (-I): code comes from what is installed and from --plugin-folder, never from the working folder or PYTHON*
# variables. -B writes no bytecode, -u holds no log line back.
ENTRYPOINT ["/opt/tandem/bin/python", "-I", "-B", "-u", "-m", "scheduler", "run"]
