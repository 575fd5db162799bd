package faultproxy

import (
	"encoding/binary"
	"fmt"
	"io"
)

// largestFrame is more than any broker accepts or sends; a longer length is no Kafka.
const largestFrame = 256 << 20

// readFrame reads a length and as many bytes; the frame that it gives includes the length.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > largestFrame {
		return nil, fmt.Errorf("faultproxy: a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, head[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// requestHead is what begins each request: the API key, its version, the correlation id.
func requestHead(frame []byte) (key int16, id int32, ok bool) {
	if len(frame) < 12 {
		return 0, 0, false
	}
	return int16(binary.BigEndian.Uint16(frame[4:])), int32(binary.BigEndian.Uint32(frame[8:])), true
}

// answerID is the correlation id that begins each answer.
func answerID(frame []byte) (id int32, ok bool) {
	if len(frame) < 8 {
		return 0, false
	}
	return int32(binary.BigEndian.Uint32(frame[4:])), true
}
