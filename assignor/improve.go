package assignor

// improveBudget bounds the work of improve: about 20 ms. Past it the plan is balanced all the same,
// and moves a few tasks more than it must.
const improveBudget = 20_000_000

// class is a run of sets that the same members can have, with who gets one task more than the others
// of each of them.
type class struct {
	sets  []*set
	more  [][]bool  // by set and member
	cost  [][]int32 // of having one more, by set and member
	total []int32   // by member, of all sets so far
}

// What one task more costs a member: keeping what it has is worth any number of lesser wishes, but an
// old member is given a new task in place of a newcomer only where nothing else is balanced.
const (
	costKept  = 0
	costWarm  = 1000 // it has a copy of a task without an owner
	costNew   = 1001 // it is new and has nothing yet
	costOther = 1002
	costGrown = 100_000 // nothing is without an owner, so that somebody would have to give it up
)

// improve moves the odd tasks of a class of sets between its members until that saves no move any
// more. Shares of each set and of all together stay as even as they were.
//
// The sets are the nodes of a graph, and one node more stands for "none": a member with the smaller
// total has that one. A member that has one more of set a and not of b is an edge from a to b, at
// the price of the exchange. A cycle of negative price is an improvement that keeps all counts.
func (c *class) improve() {
	c.addNone()
	nodes := len(c.more)
	for work := 0; work < improveBudget; work += nodes * nodes * len(c.sets[0].eligible) {
		price, via := c.edges()
		cycle := negativeCycle(price)
		if cycle == nil {
			break
		}
		for i, from := range cycle {
			to := cycle[(i+1)%len(cycle)]
			m := via[from][to]
			c.more[from][m], c.more[to][m] = false, true
			c.total[m] += int32(boolInt(to < len(c.sets)) - boolInt(from < len(c.sets)))
		}
	}
	c.more = c.more[:len(c.sets)]
}

// addNone adds the node that evens totals out, unless they are not even anyhow.
func (c *class) addNone() {
	least, most := c.total[c.sets[0].eligible[0]], int32(0)
	for _, m := range c.sets[0].eligible {
		least, most = min(least, c.total[m]), max(most, c.total[m])
	}
	if most-least != 1 {
		return
	}
	none := make([]bool, len(c.total))
	for _, m := range c.sets[0].eligible {
		none[m] = c.total[m] == least
	}
	c.more = append(c.more, none)
	c.cost = append(c.cost, make([]int32, len(c.total)))
}

const noEdge = int32(1) << 30

// edges finds for each pair of nodes the member whose exchange is cheapest.
func (c *class) edges() (price, via [][]int32) {
	nodes := len(c.more)
	price, via = make([][]int32, nodes), make([][]int32, nodes)
	for a := range nodes {
		price[a], via[a] = make([]int32, nodes), make([]int32, nodes)
		for b := range nodes {
			price[a][b] = noEdge
			for _, m := range c.sets[0].eligible {
				if !c.more[a][m] || c.more[b][m] {
					continue
				}
				if p := c.cost[b][m] - c.cost[a][m]; p < price[a][b] {
					price[a][b], via[a][b] = p, m
				}
			}
		}
	}
	return price, via
}

// negativeCycle is Bellman and Ford's, from all nodes at once. Nil: there is none.
func negativeCycle(price [][]int32) []int {
	nodes := len(price)
	distance, before := make([]int32, nodes), make([]int, nodes)
	last := -1
	for range nodes {
		last = -1
		for a := range nodes {
			for b := range nodes {
				if price[a][b] != noEdge && distance[a]+price[a][b] < distance[b] {
					distance[b], before[b] = distance[a]+price[a][b], a
					last = b
				}
			}
		}
		if last < 0 {
			return nil
		}
	}
	for range nodes { // into the cycle
		last = before[last]
	}
	cycle := []int{last}
	for at := before[last]; at != last; at = before[at] {
		cycle = append(cycle, at)
	}
	for i, j := 0, len(cycle)-1; i < j; i, j = i+1, j-1 {
		cycle[i], cycle[j] = cycle[j], cycle[i]
	}
	return cycle
}
