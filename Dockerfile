# The sidecar as an image: static, non-root, nothing else in it.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/pillion/pillion/internal/cli.Version=${VERSION}" -o /pillion ./cmd/sidecar

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /pillion /pillion
USER 65532:65532
ENTRYPOINT ["/pillion"]
CMD ["run"]
