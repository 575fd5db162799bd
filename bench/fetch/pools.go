package main

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pools is franz-go's memory to be used again, which it leaves to its users.
type pools struct{ records, bytes sync.Pool }

func (p *pools) GetRecords(n int) []kgo.Record {
	if r, ok := p.records.Get().(*[]kgo.Record); ok && cap(*r) >= n {
		return (*r)[:0]
	}
	return make([]kgo.Record, 0, n)
}

func (p *pools) PutRecords(r []kgo.Record) { p.records.Put(&r) }

func (p *pools) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if b, ok := p.bytes.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 4*len(compressed))
}

func (p *pools) PutDecompressBytes(b []byte) { p.bytes.Put(&b) }

func readFranzPools(ctx context.Context, topic string) (int64, error) {
	var bytes int64
	return franz(ctx, topic, func(p kgo.FetchTopicPartition) int64 {
		for _, r := range p.Records {
			bytes += int64(len(r.Key) + len(r.Value))
			r.Recycle()
		}
		return int64(len(p.Records))
	}, kgo.WithPools(&pools{}))
}
