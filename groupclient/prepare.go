package groupclient

import (
	"context"
	"errors"

	"github.com/pillion/pillion/internal/kafka"
)

// PrepareOptions are the settings that a declaration is checked with.
type PrepareOptions struct {
	Group         string
	AllowedTopics []string // exact names or "prefix*"; empty: every topic
	CreateMissing int32    // partitions of sources and outputs to create; 0: a missing one is refused
}

// Prepare checks a declaration against Kafka and creates the changelogs that are missing.
func Prepare(ctx context.Context, client *kafka.Client, opts PrepareOptions, d Declaration) (Prepared, error) {
	return Prepared{}, errors.New("not built yet")
}
