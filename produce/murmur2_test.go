package produce

import "testing"

// The values of Kafka's own UtilsTest.testMurmur2.
func TestMurmur2KnownValues(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestKeyPartition(t *testing.T) {
	if got := KeyPartition([]byte{}, 8); got != int32(murmur2(nil)&0x7fffffff)%8 {
		t.Errorf("empty key: partition %d", got)
	}
	for _, key := range []string{"21", "foobar"} { // negative hashes
		if got := KeyPartition([]byte(key), 7); got < 0 || got >= 7 {
			t.Errorf("KeyPartition(%q, 7) = %d", key, got)
		}
	}
}
