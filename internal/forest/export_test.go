package forest

// Visits returns how many nodes a walk from the first root with a row visits, the leaf included, by the layout without kernels.
func (t *Trees[T]) Visits(row []T) int {
	n, i := 1, t.roots[0]
	for next := step(&t.nodes[0], &row[0], i); next != i; n++ {
		i, next = next, step(&t.nodes[0], &row[0], next)
	}
	return n
}
