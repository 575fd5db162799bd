package cli

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemoryIsLimited(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	pairs := []*pair{{sidecar: &sidecar{bound: 300 << 20}}, {sidecar: &sidecar{bound: 200 << 20}}}
	for _, c := range []struct {
		environ []string
		want    int64
	}{
		{[]string{"GOMEMLIMIT=1GiB"}, math.MaxInt64},
		{[]string{"GOMEMLIMIT=", "HOME=/"}, 500<<20 - codeBytes},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		limitMemory(c.environ, pairs)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%v: limit %d, want %d", c.environ, got, c.want)
		}
	}
}
