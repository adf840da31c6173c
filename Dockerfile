# For those who have a container engine. The project itself builds its image with `make image`, without one; this file has not
# been built by its tests. Both images run the same binary as the same user, and have no base.
#
#     CGO_ENABLED=0 GOOS=linux GOARCH=amd64 go build -trimpath -buildvcs=false -ldflags '-s -w' -o bin/image/amd64/united-manager ./cmd/manager
#     docker build --platform linux/amd64 -t REGISTRY/united-manager:TAG .
FROM scratch
ARG TARGETARCH
COPY LICENSE /LICENSE
COPY bin/image/$TARGETARCH/united-manager /united-manager
USER 65532:65532
ENTRYPOINT ["/united-manager"]
