package drill

import "hash/fnv"

// Input is one record of the source.
type Input struct {
	Source    int // the life of the topic: it is deleted and created anew now and then
	Partition int32
	Offset    int64
	Key       string
	ID        int64 `json:"id"`
	Amount    int64 `json:"amount"`
}

// Total is a row of the table.
type Total struct {
	Count int64 `json:"count"`
	Sum   int64 `json:"sum"`
}

// Ref is a row of the source table. Its factor follows from the key, so that a join has one right answer
// whenever it is made; rev grows with each rewrite.
type Ref struct {
	Factor int64 `json:"factor"`
	Rev    int64 `json:"rev"`
}

// Output is what the job makes of one input.
type Output struct {
	Partition int32  `json:"-"`
	Offset    int64  `json:"-"`
	At        int64  `json:"-"` // milliseconds since 1970, by its timestamp
	Key       string `json:"-"`
	ID        int64  `json:"id"`
	Amount    int64  `json:"amount"`
	Count     int64  `json:"count"`
	Sum       int64  `json:"sum"`
	Factor    int64  `json:"factor"`
	Rev       int64  `json:"rev"`
}

// factor is the join's right answer for a key.
func factor(key string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int64(h.Sum32()%997) + 1
}

// Answer is what the job must come to: the table, and one output for each input, by the input's id. It knows
// the inputs alone. They are in the order of source, partition and offset; a key has one partition.
func Answer(inputs []Input) (table map[string]Total, outputs map[int64]Output) {
	table, outputs = map[string]Total{}, make(map[int64]Output, len(inputs))
	for _, in := range inputs {
		t := table[in.Key]
		t.Count++
		t.Sum += in.Amount
		table[in.Key] = t
		outputs[in.ID] = Output{Key: in.Key, ID: in.ID, Amount: in.Amount, Count: t.Count, Sum: t.Sum, Factor: factor(in.Key)}
	}
	return table, outputs
}
