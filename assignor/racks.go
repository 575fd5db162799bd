package assignor

import "slices"

// rackBudget bounds how many exchanges are looked at for the racks of one set: some milliseconds.
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
func (w *shadows) scatter(i int) {
	if w.rack == nil {
		return
	}
	r := rackSearch{shadows: w, set: i, held: w.held(i), budget: rackBudget}
	for again := true; again; {
		again = false
		for partition := range w.at[i] {
			for at := range w.at[i][partition] {
				m := w.at[i][partition][at]
				if r.budget < 0 {
					return
				}
				if w.near(i, partition, m, nobody) > 0 && r.leave(partition, at) {
					again = true
				}
			}
		}
	}
}

type rackSearch struct {
	*shadows
	set    int
	held   [][]int // tasks of which each member is a standby
	budget int
}

// leave finds another member for a standby.
func (r *rackSearch) leave(partition, at int) bool {
	i := r.set
	m := r.at[i][partition][at]
	now := r.near(i, partition, m, nobody)
	var free []int32
	for _, to := range r.able[i] {
		if r.budget--; r.may(i, partition, to) && r.near(i, partition, to, m) < now {
			free = append(free, to)
		}
	}
	for _, to := range free {
		if len(r.held[m]) > len(r.held[to]) && r.load[m] > r.load[to] {
			r.hand(partition, m, to)
			r.load[m]--
			r.load[to]++
			return true
		}
	}
	for _, to := range free {
		for _, other := range r.held[to] {
			if r.budget--; r.budget < 0 {
				return false
			}
			if r.may(i, other, m) && r.near(i, other, m, to) <= r.near(i, other, to, nobody) {
				r.hand(partition, m, to)
				r.hand(other, to, m)
				return true
			}
		}
	}
	return false
}

func (r *rackSearch) hand(partition int, from, to int32) {
	list := r.at[r.set][partition]
	list[slices.Index(list, from)] = to
	at := slices.Index(r.held[from], partition)
	r.held[from] = slices.Delete(r.held[from], at, at+1)
	r.held[to] = append(r.held[to], partition)
}
