package tensor

// Value is what an edge of a graph carries at run time: *Tensor, *Sequence, *Optional or *Map.
type Value interface{ isValue() }

// Sequence is an ordered list of values of one type. An empty sequence keeps the element type of its tensors.
type Sequence struct {
	DType DType // element type of tensor elements; Invalid for nested sequences
	Items []Value
}

// Optional holds a value or nothing (nil).
type Optional struct{ Item Value }

func (*Tensor) isValue()   {}
func (*Sequence) isValue() {}
func (*Optional) isValue() {}
func (*Map) isValue()      {}
