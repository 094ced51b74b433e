package dag

// Verify proves a grouping of the problem from scratch: every node in exactly one group, every group of one colour and not
// empty, host nodes single, bounds not crossed, cut edges between groups, Alone and connectedness obeyed, and the quotient of
// all groups together without a cycle. It returns an *Error wrapping the cause. It shares no code with Group but the bucket
// sort, union-find and the call of two functions at a time, takes groupings from anywhere (group numbers need no order), and
// costs O(nodes + edges).
func Verify(p *Problem, r *Grouping) error {
	if err := p.check("verify"); err != nil {
		return err
	}
	if r == nil || len(r.Of) != p.Graph.Len() {
		return &Error{Op: "verify", What: "groups", Node: -1, Err: ErrSize}
	}
	for v, x := range r.Of {
		if x < 0 || int(x) >= r.Len() {
			return &Error{Op: "verify", What: "groups", Node: int32(v), Err: ErrRange}
		}
	}
	c := &checker{p: p, r: r}
	c.ptr, c.nodes = r.Members()
	for _, check := range []func() error{c.colors, c.contents, c.cuts} {
		if err := check(); err != nil {
			return err
		}
	}
	var err, second error
	both(len(r.Of), func() { err = c.connected() }, func() { second = c.acyclic() })
	if err == nil {
		err = second
	}
	return err
}

// checker verifies one grouping.
type checker struct {
	p          *Problem
	r          *Grouping
	ptr, nodes []int32
}

func (c *checker) fail(group int32, node int32, cause error) error {
	return &Error{Op: "verify", Group: int(group), Node: node, Err: cause}
}

// members returns the nodes of a group.
func (c *checker) members(x int32) []int32 { return c.nodes[c.ptr[x]:c.ptr[x+1]] }

// colors checks that every group is of one colour and that host groups are single nodes.
func (c *checker) colors() error {
	for x := range int32(c.r.Len()) {
		nodes, color := c.members(x), c.r.Color[x]
		if len(nodes) == 0 {
			return c.fail(x, -1, ErrEmpty)
		}
		if color < Host {
			return c.fail(x, -1, ErrRange)
		}
		for _, v := range nodes {
			if c.p.Color[v] != color || color == Host && len(nodes) > 1 {
				return c.fail(x, v, ErrColor)
			}
		}
	}
	return nil
}

// contents checks bounds and Alone.
func (c *checker) contents() error {
	for x := range int32(c.r.Len()) {
		nodes := c.members(x)
		if c.r.Color[x] == Host {
			continue
		}
		for _, v := range nodes {
			if c.p.Bound != nil && c.p.Bound[v] != c.p.Bound[nodes[0]] {
				return c.fail(x, v, ErrBound)
			}
			if c.p.Alone != nil && c.p.Alone[v] && len(nodes) > 1 {
				return c.fail(x, v, ErrAlone)
			}
		}
	}
	return nil
}

// cuts checks that no cut edge lies in a group.
func (c *checker) cuts() error {
	if c.p.Cut == nil {
		return nil
	}
	g := c.p.Graph
	for u := range g.n {
		for s := g.succPtr[u]; s < g.succPtr[u+1]; s++ {
			v := g.succ[s]
			if c.p.Cut[g.succEdge[s]] && c.r.Of[u] == c.r.Of[v] {
				return c.fail(c.r.Of[u], u, ErrCut)
			}
		}
	}
	return nil
}

// connected checks that groups are connected where their colour asks for it.
func (c *checker) connected() error {
	g := c.p.Graph
	parent := make([]int32, g.n)
	singletons(parent)
	parts := int(g.n)
	for u := range g.n {
		for _, v := range g.Succ(u) {
			if c.r.Of[u] == c.r.Of[v] && unite(parent, u, v) {
				parts--
			}
		}
	}
	if parts == c.r.Len() { // no group has more than one
		return nil
	}
	for x := range int32(c.r.Len()) {
		if color := c.r.Color[x]; color == Host || c.p.policy(color).Disconnected {
			continue
		}
		nodes := c.members(x)
		for _, v := range nodes {
			if find(parent, v) != find(parent, nodes[0]) {
				return c.fail(x, v, ErrConnected)
			}
		}
	}
	return nil
}

// acyclic checks the quotient: at a glance if the groups' numbers are a topological order, else with Kahn's algorithm.
func (c *checker) acyclic() error {
	g, of := c.p.Graph, c.r.Of
	ordered := true
	missing := make([]int32, c.r.Len()) // edges from groups that are not ordered yet
	for u := range g.n {
		for _, v := range g.Succ(u) {
			if of[u] != of[v] {
				missing[of[v]]++
			}
			ordered = ordered && of[u] <= of[v]
		}
	}
	if ordered {
		return c.inside()
	}
	queue := make([]int32, 0, len(missing))
	for x, m := range missing {
		if m == 0 {
			queue = append(queue, int32(x))
		}
	}
	for i := 0; i < len(queue); i++ {
		for _, u := range c.members(queue[i]) {
			for _, v := range g.Succ(u) {
				if of[u] == of[v] {
					continue
				}
				if missing[of[v]]--; missing[of[v]] == 0 {
					queue = append(queue, of[v])
				}
			}
		}
	}
	if len(queue) == len(missing) {
		return c.inside()
	}
	return cycleError("verify", c.cycle(missing))
}

// inside checks that the graph has no cycle inside a group, which the quotient does not show.
func (c *checker) inside() error {
	g, of := c.p.Graph, c.r.Of
	missing := make([]int32, g.n)
	inner := 0
	for u := range g.n {
		for _, v := range g.Succ(u) {
			if of[u] == of[v] {
				missing[v]++
				inner++
			}
		}
	}
	if inner == 0 {
		return nil
	}
	queue := make([]int32, 0, g.n)
	for v, m := range missing {
		if m == 0 {
			queue = append(queue, int32(v))
		}
	}
	for i := 0; i < len(queue); i++ {
		for _, v := range g.Succ(queue[i]) {
			if of[queue[i]] != of[v] {
				continue
			}
			if missing[v]--; missing[v] == 0 {
				queue = append(queue, v)
			}
		}
	}
	if len(queue) < int(g.n) {
		for v, m := range missing {
			if m > 0 {
				return c.fail(of[v], int32(v), ErrCycle)
			}
		}
	}
	return nil
}

// cycle returns the groups of one cycle. Groups with missing edges all have a predecessor of their kind.
func (c *checker) cycle(missing []int32) []int32 {
	g, of := c.p.Graph, c.r.Of
	ptr, pred := make([]int32, len(missing)+1), []int32(nil)
	start := int32(-1)
	for x := range int32(len(missing)) {
		for _, v := range c.members(x) {
			for _, u := range g.Pred(v) {
				if of[u] != x {
					pred = append(pred, of[u])
				}
			}
		}
		ptr[x+1] = int32(len(pred))
		if start < 0 && missing[x] > 0 {
			start = x
		}
	}
	return cycle(ptr, pred, func(x int32) bool { return missing[x] > 0 }, start)
}
