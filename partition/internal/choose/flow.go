package choose

import "context"

// network is a flow network for minimum cuts: vertices between a source and a sink. Arcs stand in pairs, one the reverse of the
// other. Capacities are whole numbers.
type network struct {
	excess []int64 // capacity from the source, less that to the sink, by vertex
	head   []int32 // first arc, by vertex
	next   []int32
	to     []int32
	room   []int64

	level, at []int32
	queue     []int32
	path      []int32
}

// capacity is that of what must not be cut.
const capacity = Hard

// reset empties the network and gives it so many vertices.
func (n *network) reset(vertices int) {
	n.excess, n.head = n.excess[:0], n.head[:0]
	n.next, n.to, n.room = n.next[:0], n.to[:0], n.room[:0]
	for range vertices {
		n.vertex()
	}
}

// vertex adds a vertex.
func (n *network) vertex() int32 {
	n.excess, n.head = append(n.excess, 0), append(n.head, -1)
	return int32(len(n.head) - 1)
}

// arc adds a capacity between two vertices: what is paid where u is on the source's side and v on the sink's.
func (n *network) arc(u, v int32, cost int64) {
	k := int32(len(n.to))
	n.to = append(n.to, v, u)
	n.room = append(n.room, min(cost, capacity), 0)
	n.next = append(n.next, n.head[u], n.head[v])
	n.head[u], n.head[v] = k, k+1
}

// sinkCost adds what is paid where v is on the sink's side.
func (n *network) sinkCost(v int32, cost int64) {
	n.excess[v] = max(min(n.excess[v]+cost, capacity), -capacity)
}

// sourceCost adds what is paid where v is on the source's side.
func (n *network) sourceCost(v int32, cost int64) { n.sinkCost(v, -cost) }

// cut finds a minimum cut: that with the fewest vertices on the sink's side. sink reports afterwards on which side a vertex is.
// It is Dinic's method (Algorithm for solution of a problem of maximum flow in networks with power estimation, Soviet
// Mathematics Doklady 11, 1970), O(V²E), and far less on networks like these. The error is ctx's.
func (n *network) cut(ctx context.Context) error {
	if cap(n.level) < len(n.head) {
		n.level, n.at = make([]int32, len(n.head)), make([]int32, len(n.head))
	}
	n.level, n.at = n.level[:len(n.head)], n.at[:len(n.head)]
	for {
		found, err := n.levels(ctx)
		if err != nil || !found {
			return err
		}
		copy(n.at, n.head)
		for i, v := range n.queue {
			if i%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if n.excess[v] >= 0 || n.level[v] != 1 {
				break // the queue begins with the vertices at the sink
			}
			if err := n.fill(ctx, v); err != nil {
				return err
			}
		}
	}
}

// levels measures distances to the sink against the arcs that have room; it reports whether a vertex with excess has one. The
// search runs from the sink, so that what it reaches in the end is the sink's side.
func (n *network) levels(ctx context.Context) (found bool, err error) {
	clear(n.level)
	n.queue = n.queue[:0]
	for v, e := range n.excess {
		if e < 0 {
			n.level[v] = 1
			n.queue = append(n.queue, int32(v))
		}
	}
	for i := 0; i < len(n.queue); i++ {
		if i%16384 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		v := n.queue[i]
		for a := n.head[v]; a >= 0; a = n.next[a] {
			if u := n.to[a]; n.level[u] == 0 && n.room[a^1] > 0 {
				n.level[u] = n.level[v] + 1
				n.queue = append(n.queue, u)
				found = found || n.excess[u] > 0
			}
		}
	}
	return found, nil
}

// fill sends flow into vertex t, which is at the sink, along arcs of falling level from vertices with excess, until it takes no
// more or there are none.
func (n *network) fill(ctx context.Context, t int32) error {
	n.path = n.path[:0] // arcs from t backwards: of each the one that points towards t has room
	v := t
	for steps := 1; n.excess[t] < 0; steps++ {
		if steps%65536 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if n.excess[v] > 0 && v != t {
			v = n.augment(t, v)
			continue
		}
		a := n.at[v]
		for a >= 0 && !(n.room[a^1] > 0 && n.level[n.to[a]] == n.level[v]+1) {
			a = n.next[a]
		}
		n.at[v] = a
		if a >= 0 {
			n.path = append(n.path, a)
			v = n.to[a]
			continue
		}
		if len(n.path) == 0 {
			return nil
		}
		last := n.path[len(n.path)-1]
		n.path = n.path[:len(n.path)-1]
		v = n.to[last^1]
		n.at[v] = n.next[n.at[v]]
	}
	return nil
}

// augment sends the most that the path takes from v to t, and returns the vertex that the search goes on from.
func (n *network) augment(t, v int32) int32 {
	most := min(n.excess[v], -n.excess[t])
	for _, a := range n.path {
		most = min(most, n.room[a^1])
	}
	n.excess[v] -= most
	n.excess[t] += most
	cut := -1
	for i, a := range n.path {
		n.room[a^1] -= most
		n.room[a] += most
		if n.room[a^1] == 0 && cut < 0 {
			cut = i
		}
	}
	if cut < 0 {
		return v
	}
	v = n.to[n.path[cut]^1]
	n.path = n.path[:cut]
	return v
}

// sink reports whether v is on the sink's side of the cut that was found.
func (n *network) sink(v int32) bool { return n.level[v] > 0 }
