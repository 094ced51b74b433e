package mkl

import (
	"fmt"

	"github.com/carve-dev/carve/graph"
)

// resolveWindow reads the spatial attributes of a convolution, transposed convolution or pooling of concrete spatial dims.
// Padding at the ends is what the result's size asks for.
func resolveWindow(n *graph.Node, in, kernel, out []int, transposed bool) (window, error) {
	r := len(in)
	if len(kernel) != r || len(out) != r {
		return window{}, fmt.Errorf("kernel %v for %d spatial dims", kernel, r)
	}
	w := window{kernel: kernel, padL: make([]int, r), padR: make([]int, r)}
	var err error
	if w.strides, err = intsOr(n, "strides", r, 1); err != nil {
		return w, err
	}
	if w.dilations, err = intsOr(n, "dilations", r, 1); err != nil {
		return w, err
	}
	pads, err := intsOr(n, "pads", 2*r, 0)
	if err != nil {
		return w, err
	}
	auto := n.Str("auto_pad", "NOTSET")
	_, shaped := n.Ints("output_shape")
	for i := range r {
		span := (kernel[i]-1)*w.dilations[i] + 1
		if w.strides[i] < 1 || w.dilations[i] < 1 || kernel[i] < 1 {
			return w, fmt.Errorf("kernel %v, strides %v, dilations %v", kernel, w.strides, w.dilations)
		}
		total := (out[i]-1)*w.strides[i] + span - in[i] // padding with which the window ends with the last element
		if transposed {
			total = (in[i]-1)*w.strides[i] + span - out[i]
		}
		switch auto {
		case "NOTSET", "":
			w.padL[i] = pads[i]
			if transposed && shaped {
				outer, err := intsOr(n, "output_padding", r, 0)
				if err != nil {
					return w, err
				}
				total += outer[i]
				w.padL[i] = total - total/2
				total -= outer[i]
			}
			if !transposed && pads[r+i] >= total-w.padL[i] { // what the window does not reach
				w.padR[i] = pads[r+i]
				continue
			}
		case "VALID":
			if total <= 0 {
				continue
			}
		case "SAME_UPPER", "SAME_LOWER":
			same := max(total, 0)
			if transposed {
				outer, err := intsOr(n, "output_padding", r, 0)
				if err != nil {
					return w, err
				}
				same = max(total+outer[i], 0)
			}
			w.padL[i] = same / 2
			if auto == "SAME_LOWER" {
				w.padL[i] = same - same/2
			}
			if !transposed {
				w.padR[i] = same - w.padL[i]
				continue
			}
		default:
			return w, fmt.Errorf("auto_pad %q", auto)
		}
		w.padR[i] = total - w.padL[i]
	}
	return w, nil
}

// intsOr reads a list attribute of r numbers, all equal to def where it is absent.
func intsOr(n *graph.Node, name string, r, def int) ([]int, error) {
	out := make([]int, r)
	v, ok := n.Ints(name)
	if ok && len(v) != r {
		return nil, fmt.Errorf("%s has %d numbers instead of %d", name, len(v), r)
	}
	for i := range out {
		out[i] = def
		if ok {
			out[i] = int(v[i])
		}
	}
	return out, nil
}
