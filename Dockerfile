# For those who have a container engine. The project itself builds its image with `make image`, without one; this file has not
# been built by its tests. Both images run the same binary as the same user.
#
#     docker build -t REGISTRY/united-manager:TAG .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags '-s -w' -o /out/united-manager ./cmd/manager

FROM scratch
COPY LICENSE /LICENSE
COPY --from=build /out/united-manager /united-manager
USER 65532:65532
ENTRYPOINT ["/united-manager"]
