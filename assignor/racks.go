package assignor

import "slices"

// rackBudget bounds how many exchanges are looked at for the racks: some ten milliseconds.
const rackBudget = 2_000_000

// racks of members as numbers; nil when it makes no difference. Members without one have nobody.
func (p *problem) racks() []int32 {
	numbers := map[string]int32{}
	racks := make([]int32, len(p.members))
	for i, m := range p.members {
		racks[i] = nobody
		if m.Rack == "" {
			continue
		}
		if _, ok := numbers[m.Rack]; !ok {
			numbers[m.Rack] = int32(len(numbers))
		}
		racks[i] = numbers[m.Rack]
	}
	if len(numbers) < 2 {
		return nil
	}
	return racks
}

// near is how many copies of a task, its active among them, share a rack with a member. The copy on
// the member itself and that on another are not counted.
func (w *shadows) near(i, partition int, m, but int32) (n int) {
	if w.rack == nil || w.rack[m] == nobody {
		return 0
	}
	count := func(other int32) {
		n += boolInt(other != nobody && other != m && other != but && w.rack[other] == w.rack[m])
	}
	count(w.active[i][partition])
	for _, other := range w.at[i][partition] {
		count(other)
	}
	return n
}

// scatter moves standbys off the racks of other copies of their tasks: to a member with fewer, or in
// exchange for the standby of another task. It never makes shares less even, and ends when no such
// step helps or the budget is spent.
func (w *shadows) scatter() {
	if w.rack == nil {
		return
	}
	r := rackSearch{shadows: w, budget: rackBudget, load: w.loads(w.at)}
	for i := range w.p.sets {
		r.held = append(r.held, w.held(i))
	}
	for again := true; again; {
		again = false
		for i := range w.at {
			for partition := range w.at[i] {
				for at := range w.at[i][partition] {
					if r.budget < 0 {
						return
					}
					if m := w.at[i][partition][at]; w.near(i, partition, m, nobody) > 0 && r.leave(i, partition, m) {
						again = true
					}
				}
			}
		}
	}
}

type rackSearch struct {
	*shadows
	held   [][][]int // by set and member: tasks of which it is a standby
	load   []int32   // standbys of each member, over all sets
	budget int
}

// leave finds another member for a standby of m.
func (r *rackSearch) leave(i, partition int, m int32) bool {
	now := r.near(i, partition, m, nobody)
	var free []int32
	for _, to := range r.able[i] {
		if r.budget--; r.may(i, partition, to) && r.near(i, partition, to, m) < now {
			free = append(free, to)
		}
	}
	for _, to := range free {
		if len(r.held[i][m]) > len(r.held[i][to]) && r.load[m] > r.load[to] {
			r.hand(i, partition, m, to)
			return true
		}
	}
	for _, to := range free {
		for j := range r.held {
			// Within the set anything can be exchanged; with another set only what each has more of.
			if j != i && (len(r.held[i][m]) <= len(r.held[i][to]) || len(r.held[j][to]) <= len(r.held[j][m])) {
				continue
			}
			if other := r.exchange(j, to, m); other >= 0 {
				r.hand(i, partition, m, to)
				r.hand(j, other, to, m)
				return true
			}
		}
	}
	return false
}

// exchange finds a task of which another member's standby can go to m without being nearer to others;
// -1: there is none.
func (r *rackSearch) exchange(set int, from, m int32) int {
	for _, other := range r.held[set][from] {
		if r.budget--; r.budget < 0 {
			return -1
		}
		if r.may(set, other, m) && r.near(set, other, m, from) <= r.near(set, other, from, nobody) {
			return other
		}
	}
	return -1
}

func (r *rackSearch) hand(set, partition int, from, to int32) {
	list := r.at[set][partition]
	list[slices.Index(list, from)] = to
	at := slices.Index(r.held[set][from], partition)
	r.held[set][from] = slices.Delete(r.held[set][from], at, at+1)
	r.held[set][to] = append(r.held[set][to], partition)
	r.load[from]--
	r.load[to]++
}
