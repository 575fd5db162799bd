package drill

// checkActives: in one generation no task is active at two sidecars. A sidecar is the active of a task from
// the line that says that it runs until it is released, lost or demoted; each sync that keeps the task makes
// it the active in that generation, too.
func (f *Facts) checkActives(r *report) {
	type at struct {
		task       string
		generation int64
	}
	type sidecar struct{ pair, life int }
	actives, generations, had := map[at]sidecar{}, map[sidecar]int64{}, map[sidecar]map[string]bool{}
	claim := func(who sidecar, task string) {
		where := at{task, generations[who]}
		if other, taken := actives[where]; taken && other != who {
			r.add(TwoActives, "%s ran in generation %d at pair %d (life %d) and at pair %d (life %d)", task, where.generation, other.pair, other.life, who.pair, who.life)
		}
		actives[where] = who
	}
	for _, e := range byTime(f.History) {
		who := sidecar{e.Pair, e.Life}
		if had[who] == nil {
			had[who] = map[string]bool{}
		}
		switch e.What {
		case GroupAssigned:
			generations[who] = e.Generation
			for task := range had[who] {
				claim(who, task)
			}
		case TaskRunning, TaskPromoted:
			if e.Generation > generations[who] {
				generations[who] = e.Generation
			}
			had[who][e.Task] = true
			claim(who, e.Task)
		case TaskRevoked, TaskReleased, TaskDemoted, TaskRefused:
			delete(had[who], e.Task)
		case GroupLost, GroupLeft, SidecarEnded:
			clear(had[who])
		}
	}
}
