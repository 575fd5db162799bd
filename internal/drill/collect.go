package drill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pillion/pillion/restore"
)

// readback is all that was read so far: each wave reads on from where the last one has ended.
type readback struct {
	at        map[string]map[int32]int64 // by topic and life
	inputs    []Input
	outputs   []Output
	changelog []Row
	refs      []Row
	positions []Position
	ends      map[int32]int64
}

// collect reads what is new in every topic.
func (l *lab) collect(ctx context.Context) error {
	r := &l.read
	if r.at == nil {
		r.at = map[string]map[int32]int64{}
	}
	more := func(topic, name string) (records []*kgo.Record, ends map[int32]int64, err error) {
		records, ends, err = l.cluster.readLog(ctx, topic, r.at[name])
		if err == nil {
			r.at[name] = ends
		}
		return records, ends, err
	}
	records, ends, err := more(l.in, fmt.Sprintf("%s, life %d", l.in, l.source))
	if err != nil {
		return err
	}
	r.ends = ends
	inputs, err := inputsOf(records, l.source)
	if err != nil {
		return err
	}
	r.inputs = append(r.inputs, inputs...)
	if records, _, err = more(l.out, l.out); err != nil {
		return err
	}
	outputs, err := outputsOf(records)
	if err != nil {
		return err
	}
	r.outputs = append(r.outputs, outputs...)
	if records, _, err = more(l.changelog(), l.changelog()); err != nil {
		return err
	}
	r.changelog = append(r.changelog, rowsOf(records)...)
	if records, _, err = more(l.ref, l.ref); err != nil {
		return err
	}
	r.refs = append(r.refs, rowsOf(records)...)
	return l.collectPositions(ctx)
}

// collectPositions reads what is new in the coordinator's log, as positions of the source's present life.
func (l *lab) collectPositions(ctx context.Context) error {
	const log = "__consumer_offsets"
	records, ends, err := l.cluster.readLog(ctx, log, l.read.at[log])
	if err != nil {
		return err
	}
	l.read.at[log] = ends
	l.read.positions = append(l.read.positions, positionsOf(records, l.group, l.in, l.source)...)
	return nil
}

// facts are what was read, for a check. Per partition the records are in order, over all waves.
func (r *readback) facts(l *lab) Facts {
	f := Facts{
		Guarantee: l.options.Guarantee, Inputs: r.inputs, Outputs: r.outputs, Changelog: r.changelog, Refs: r.refs,
		Positions: r.positions, Ends: r.ends, History: l.history.Events(),
	}
	for _, p := range l.pairs {
		p.mu.Lock()
		f.Exits = append(f.Exits, p.exits...)
		f.Memory = append(f.Memory, Memory{Pair: p.n, Bytes: p.most, Bound: p.bound})
		p.mu.Unlock()
	}
	return f
}

// stores reads the workers' files, which nobody has open.
func (l *lab) stores(ctx context.Context) (list []Store, err error) {
	for _, p := range l.pairs {
		dump := filepath.Join(l.checkout, "internal", "drill", "testdata", "dump.py")
		text, err := exec.CommandContext(ctx, l.python, dump, filepath.Join(p.dir, "tables")).Output()
		if err != nil {
			return nil, fmt.Errorf("read the stores of pair %d: %w", p.n, err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var file struct {
				Path, Table, Checkpoint string
				Partition               int32
				Rows                    map[string]string
			}
			if err := json.Unmarshal(lines.Bytes(), &file); err != nil {
				return nil, err
			}
			s := Store{Pair: p.n, Path: file.Path, Table: file.Table, Partition: file.Partition, Rows: file.Rows}
			if file.Checkpoint != "" {
				at, err := restore.ParseCheckpoint(file.Checkpoint)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", file.Path, err)
				}
				s.Next = at.Next
			}
			list = append(list, s)
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return list, nil
}
