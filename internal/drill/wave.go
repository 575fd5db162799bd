package drill

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Outcome is what came of a drill.
type Outcome struct {
	Waves      int
	Took       time.Duration
	Tally      Tally
	Violations []Violation
	Schedule   []Step // of the wave that failed
	Events     []Event
	Inputs     int
}

// Run plays waves until enough faults have counted, the time is over, or something is violated. The error is
// one of the drill itself: nothing is known then.
func Run(ctx context.Context, o Options) (out Outcome, err error) {
	began := time.Now()
	l, err := newLab(ctx, o)
	if err != nil {
		return out, err
	}
	defer l.close()
	defer func() { out.Took = time.Since(began) }()
	l.say("%d brokers and a load of %d inputs a second are up; guarantee %s, seed %d; everything is in %s", Brokers, o.Rate, o.Guarantee, o.Seed, l.dir)
	for wave := 1; ctx.Err() == nil; wave++ {
		steps := Schedule(Plan{Seed: o.Seed, Wave: wave, Faults: o.PerWave, Guarantee: o.Guarantee, Mild: o.Mild})
		facts, err := l.wave(ctx, wave, steps)
		if err != nil {
			return out, err
		}
		out.Waves, out.Events, out.Inputs = wave, facts.History, len(facts.Inputs)
		out.Tally = Count(facts.History)
		out.Violations = Check(facts)
		most := slices.MaxFunc(facts.Memory, func(a, b Memory) int { return int(a.Bytes - b.Bytes) })
		l.say("wave %d: %d faults so far, %d of them counted; %d inputs, %d outputs, %d stores compared, %d positions; largest sidecar %d of %d MiB; %d violations",
			wave, out.Tally.Injected, out.Tally.Counted, len(facts.Inputs), len(facts.Outputs), len(facts.Stores), len(facts.Positions), most.Bytes>>20, most.Bound>>20, len(out.Violations))
		if len(out.Violations) > 0 {
			out.Schedule = steps
			return out, nil
		}
		if o.Faults > 0 && out.Tally.Counted >= o.Faults || o.Time > 0 && time.Since(began) >= o.Time {
			return out, nil
		}
	}
	return out, ctx.Err()
}

// rest is how long the group may take to come to rest when all faults are healed. It is long because a machine
// that is shared may be slow; nothing waits for it unless something is stuck.
const rest = 3 * time.Minute

// wave is one round: up, faults, rest, drain, read back.
func (l *lab) wave(ctx context.Context, wave int, steps []Step) (facts Facts, err error) {
	l.history.Add(Event{What: WaveBegan, ID: int64(wave)})
	var stuck []string
	note := func(what string, err error) {
		if err != nil {
			stuck = append(stuck, fmt.Sprintf("wave %d, %s: %v", wave, what, err))
		}
	}
	note("at the start", l.up(ctx))
	if err := l.load.flow(true); err != nil {
		return facts, err
	}
	if len(stuck) == 0 {
		l.play(ctx, steps)
	}
	if err := l.load.flow(false); err != nil {
		return facts, err
	}
	note("after the faults", l.consumed(ctx, rest))
	note("after the faults", l.whole(ctx, rest))
	down := l.down()
	if every := l.options.Recreate; every > 0 && wave%every == 0 && len(stuck) == 0 {
		if err := l.collect(ctx); err != nil { // what is about to be deleted
			return facts, err
		}
		note("after the source was deleted and created anew", l.recreate(ctx))
	}
	stuck = append(stuck, l.drain(ctx)...)
	l.history.Add(Event{What: WaveEnded, ID: int64(wave)})
	if err := l.collect(ctx); err != nil {
		return facts, err
	}
	facts = l.read.facts(l)
	facts.Down, facts.Stuck = down, stuck
	facts.Stores, err = l.stores(ctx)
	return facts, err
}

// play injects the steps' faults, each step's together, and waits until all are healed.
func (l *lab) play(ctx context.Context, steps []Step) {
	healed, heal := context.WithCancel(ctx)
	defer heal()
	l.healed = healed
	for _, step := range steps {
		select {
		case <-time.After(l.paced(step.After)):
		case <-ctx.Done():
			return
		}
		var together sync.WaitGroup
		for _, f := range step.Faults {
			together.Go(func() { l.inject(ctx, f) })
		}
		together.Wait()
	}
	heal()
	l.healing.Wait()
}

// recreate deletes the source, all of which is consumed, and creates it anew. Each task must be refused, in
// words; with on_lost_position=earliest they go on, and once they have, the setting is taken back.
func (l *lab) recreate(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, 2*rest)
	defer cancel()
	f := Fault{Kind: SourceRecreated}
	l.note(Event{What: FaultBegan, Fault: &f})
	for _, p := range l.pairs {
		p.refuses(true)
		defer p.refuses(false)
	}
	if err := l.cluster.deleteTopic(within, l.in); err != nil {
		return err
	}
	if err := l.cluster.createTopic(within, l.in, Partitions); err != nil {
		return err
	}
	l.load.created()
	if err := again(within, "hear the refusals", func() (bool, error) { return l.refused() }); err != nil {
		return err
	}
	for _, earliest := range []bool{true, false} {
		l.earliest = earliest
		if stuck := l.drain(ctx); len(stuck) > 0 {
			return fmt.Errorf("%v", stuck)
		}
		if !earliest {
			break // the next wave is without it
		}
		// What was committed until now is of the former life, even what came after Kafka had removed positions.
		if err := l.collectPositions(ctx); err != nil {
			return err
		}
		l.source++
		if err := l.up(ctx); err != nil {
			return err
		}
		if err := l.load.some(ctx, 20*Partitions); err != nil {
			return err
		}
		if err := l.consumed(within, rest); err != nil {
			return err
		}
	}
	l.history.Add(Event{What: FaultEnded, Fault: &f})
	return nil
}

// refused says whether every task was refused in the words that tell what has happened and what to do.
func (l *lab) refused() (bool, error) {
	missing := 0
	for n := range Partitions {
		found := false
		for _, p := range l.pairs {
			for _, why := range []string{
				fmt.Sprintf("topic %q was deleted or created anew since group %q committed a position of %s-%d; ", l.in, l.group, l.in, n),
				// Kafka itself removes the positions of a topic that is deleted.
				fmt.Sprintf("nothing is committed for %s-%d in group %q, but changelog %q is not empty; ", l.in, n, l.group, l.changelog()),
			} {
				found = found || p.hasRefused(why, "start the sidecar with --on-lost-position earliest or latest")
			}
		}
		if !found {
			missing++
		}
	}
	if missing > 0 {
		return false, fmt.Errorf("%d of %d tasks are not refused with the words that the source was created anew", missing, Partitions)
	}
	return true, nil
}
