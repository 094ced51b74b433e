package listen

// NextBound is how the bound of Go's memory moves.
var NextBound = nextBound

// Narrow has the bound as it was before the first overload.
func (p *Processors) Narrow() {
	p.heap.mu.Lock()
	p.heap.least, p.heap.bound = usualGarbage, 0
	p.heap.mu.Unlock()
	p.heap.settle()
}
