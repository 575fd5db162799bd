package assignor

// Moves counts what a plan moves. A task that no valid claim names is no move of an active; it is
// cold all the same when somebody has a copy of it and its new active has none.
type Moves struct {
	Active int // tasks whose active is not the holder of the newest claim
	Cold   int // tasks whose active had neither the task nor a copy of it, while somebody had
}

// MovesOf compares a plan with what the members of the input claim.
func MovesOf(in Input, plan Plan) Moves {
	p := newProblem(in)
	at := p.placed(plan)
	var moves Moves
	for i := range p.sets {
		s := &p.sets[i]
		for partition, m := range at.active[i] {
			holder := s.owner[partition]
			if m == nobody || m == holder {
				continue
			}
			moves.Active += boolInt(holder != nobody)
			moves.Cold += boolInt((holder != nobody || len(s.copies[partition]) > 0) && !s.hasCopy(partition, m))
		}
	}
	return moves
}
