package fetch

// What is kept to be used again, beside what is in use.
const (
	keptBuffers = 8 // of PartitionBytes
	keptFrames  = 16
)

// restoreFrame is how many times as large the frames of a restore are. A worker does nothing with them
// but fill its store, and is faster the more it gets at once; a store on disk holds it up for as long,
// so they are not larger still.
const restoreFrame = 2

// MemoryBound is how many bytes the package holds at most: what was fetched, a frame of each
// partition that waits for its sink, what is kept to be used again, the decoders. One batch that is
// larger than a few MiB when it is decompressed comes on top, and one frame with a larger record.
func (c Config) MemoryBound() int64 {
	c = c.withDefaults()
	const columns = 4 // times a frame, in each decoder
	kept := keptBuffers*c.PartitionBytes + keptFrames*c.FrameBytes
	decoders := decoderCount() * (scratchBytes + sourceBytes + columns*restoreFrame*c.FrameBytes)
	return 2*c.BufferBytes + int64(kept+decoders)
}
