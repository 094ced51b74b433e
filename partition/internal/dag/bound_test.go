package dag

// LowerBound returns the fewest groups that nodes of colour c can be divided into when groups may be disconnected and all
// other nodes stay single: the largest number of runs of that colour on a path, runs being separated by other nodes or cut
// edges. It looks at Graph, Color and Cut alone, fails like Group, and costs O(nodes + edges).
func LowerBound(p *Problem, c int32) (int, error) {
	if err := p.check("bound"); err != nil {
		return 0, err
	}
	w := &work{}
	q := w.base(&Problem{Graph: p.Graph, Cut: p.Cut})
	order, n := w.order(q)
	if n < q.n {
		return 0, (&state{base: q, p: p}).cycle(order[:n])
	}
	runs := w.take(q.n) // the most runs on a path that ends at each node
	clear(runs)
	most := int32(0)
	for _, u := range order {
		if p.Color[u] == c {
			runs[u] = max(runs[u], 1)
		}
		most = max(most, runs[u])
		for s := q.ptr[u]; s < q.ptr[u+1]; s++ {
			v := q.adj[s]
			r := runs[u]
			if p.Color[v] == c && (p.Color[u] != c || q.barred(s)) {
				r++
			}
			runs[v] = max(runs[v], r)
		}
	}
	return int(most), nil
}
