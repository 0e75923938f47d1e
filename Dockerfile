# The images of the store (the default) and of the demo agent (--target demo-agent). Any base will do: BUILD_IMAGE needs a Go
# toolchain and a shell, RUNTIME_IMAGE nothing, not even a C library; "scratch" works, but lacks the certificates by which a
# PostgreSQL server is verified.
#
# Modules come from where the build's GOPROXY says: a proxy, or file:///... of a mounted module cache.
ARG BUILD_IMAGE=golang:1.26
ARG RUNTIME_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM ${BUILD_IMAGE} AS source
ARG GOPROXY
ARG GOSUMDB
# Modules and compiled packages are in GOPATH, which the steps share and no image holds.
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOTOOLCHAIN=local GOPATH=/go GOCACHE=/go/build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go,sharing=locked go mod download
COPY . .

FROM source AS store
ARG VERSION=
RUN --mount=type=cache,target=/go,sharing=locked \
    go build -ldflags "-s -w -X main.release=${VERSION}" -o /out/a2a-taskstore ./cmd/a2a-taskstore && mkdir /out/data

FROM source AS agent
RUN --mount=type=cache,target=/go,sharing=locked \
    go build -ldflags "-s -w" -o /out/demo ./cmd/demo

FROM ${RUNTIME_IMAGE} AS demo-agent
COPY --from=agent /out/demo /demo
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/demo", "agent"]

FROM ${RUNTIME_IMAGE}
COPY --from=store /out/a2a-taskstore /a2a-taskstore
# Owned by the user that runs, so that a new volume is, too. Nothing else is ever written: the root may be read-only.
COPY --from=store --chown=65532:65532 /out/data /data
ENV A2A_TASKSTORE_DATA_DIR=/data
VOLUME /data
USER 65532:65532
EXPOSE 7420 7421
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/a2a-taskstore", "healthcheck", "--timeout=4s"]
ENTRYPOINT ["/a2a-taskstore"]
CMD ["serve"]
