package cli

import (
	"runtime/debug"
	"strings"

	"github.com/pillion/pillion/bridge"
	"github.com/pillion/pillion/internal/fetch"
)

const (
	// runtimeBytes is what the program takes beside its buffers: code, stacks, Go's runtime, and
	// garbage that is not collected yet.
	runtimeBytes = 64 << 20
	// codeBytes of it are nothing that Go's collector knows of.
	codeBytes = 24 << 20
)

// memoryBound is what the buffers of one sidecar hold at most, in bytes.
type memoryBound struct{ bridge, fetch, produce int64 }

func newMemoryBound(listener *bridge.Config) memoryBound {
	return memoryBound{
		bridge: listener.MemoryBound(),
		fetch:  fetch.Config{}.MemoryBound(),
		// The writes of each commit under way, once more as record batches.
		produce: listener.MaxBufferedWrites + listener.MaxCommitBytes,
	}
}

func (m memoryBound) total() int64 { return m.bridge + m.fetch + m.produce + runtimeBytes }

// limitMemory keeps garbage within the bounds that the sidecars have logged, unless the user has a
// limit of his own.
func limitMemory(environ []string, pairs []*pair) {
	for _, kv := range environ {
		if limit, ok := strings.CutPrefix(kv, "GOMEMLIMIT="); ok && limit != "" {
			return
		}
	}
	sum := int64(-codeBytes)
	for _, p := range pairs {
		sum += p.sidecar.bound
	}
	debug.SetMemoryLimit(sum)
}
