package grouptest

// Operator is a graph of one input "x", for whose every node there are kernels.
type Operator struct {
	Name, Text string
	Shape      []int // of x
}

// Operators are some that take several kernels, or kernels that are written otherwise than most.
var Operators = []Operator{
	{"convolutions of volumes, with padding, strides and dilations", `  input %x: f32[2,2,4,5,6]
  const %w = f32[2,2,2,3,1]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16, 17, -18, 19, -20, 21, -22, 23, -24}
  const %b = f32[2]{0.5, -0.25}
  %c = Conv(%x, %w, %b; pads=[1,0,2,1,1,0], strides=[2,1,1], dilations=[1,1,2])
  %y = Relu(%c)
  output %y`, []int{2, 2, 4, 5, 6}},
	{"convolutions of volumes with weights that are computed, a pooling and a sum", `  input %x: f32[2,2,3,3,3]
  %c = Conv(%x, %x; pads=[1,1,1,1,1,1])
  %p = MaxPool(%c; kernel_shape=[2,2,2], pads=[0,0,1,1,1,0])
  %y = Add(%p, %x)
  output %y`, []int{2, 2, 3, 3, 3}},
	{"transposed convolutions of three dims, whose windows overlap", `  input %x: f32[1,2,3,2,3]
  const %w = f32[2,1,2,2,2]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15, -16}
  const %b = f32[1]{0.5}
  %t = ConvTranspose(%x, %w, %b; strides=[2,1,1], pads=[1,0,0,0,1,1], dilations=[1,1,2])
  %y = Relu(%t)
  output %y`, []int{1, 2, 3, 2, 3}},
	{"transposed convolutions of three dims, whose windows do not overlap", `  input %x: f32[1,4,2,2,2]
  const %w = f32[4,1,1,2,1]{1, -2, 3, -4, 5, -6, 7, -8}
  %y = ConvTranspose(%x, %w; strides=[1,2,1], group=2)
  output %y`, []int{1, 4, 2, 2, 2}},
	{"the places of what a pooling finds", `  input %x: f32[2,3,6,5]
  %m, %i = MaxPool(%x; kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1])
  %y = Relu(%m)
  output %y
  output %i`, []int{2, 3, 6, 5}},
}

// Parameters returns the text, and the extents of the shape one by one, for a table of specs.
func (o *Operator) Parameters() []any {
	list := []any{o.Text}
	for _, d := range o.Shape {
		list = append(list, d)
	}
	return list
}
