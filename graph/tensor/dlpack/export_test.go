package dlpack

// Extent checks the fields of t and returns from which to which byte, from element 0 on, its elements lie.
func (t *Tensor) Extent(flags uint64) (from, to int, err error) {
	v, err := t.look(flags)
	if err != nil {
		return 0, 0, err
	}
	return v.first * max(v.dtype.Size(), 1), v.bytes(), nil
}
