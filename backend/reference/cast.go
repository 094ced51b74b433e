package reference

import (
	"github.com/carve-dev/carve/graph/tensor"
)

var castKernels = []kernel{
	{"Cast", 6, cast},
	{"CastLike", 15, castLike},
	{"BitCast", 26, bitCast},
}

// dtypeAttr returns an attribute that names an element type.
func (c *Call) dtypeAttr(name string, def tensor.DType) tensor.DType {
	v := c.Node.Int(name, int64(def))
	if v <= 0 || v > 255 || !tensor.DType(v).Valid() {
		c.fail(name, ErrAttribute, "%d is no element type", v)
	}
	return tensor.DType(v)
}

func cast(c *Call) { c.cast(c.dtypeAttr("to", tensor.Invalid)) }

func castLike(c *Call) { c.cast(c.input(1).DType) }

// cast stores input 0 as output 0 in another element type, block by block.
func (c *Call) cast(to tensor.DType) {
	x := c.input(0)
	o := &tensor.ConvertOptions{NoSaturate: c.Node.Int("saturate", 1) == 0}
	switch mode := c.Node.Str("round_mode", "up"); mode {
	case "up":
		o.Round = tensor.RoundUp
	case "down":
		o.Round = tensor.RoundDown
	case "nearest":
		o.Round = tensor.RoundNearest
	default:
		c.fail("round_mode", ErrAttribute, "%q", mode)
	}
	out := c.result(0, to, x.Shape)
	if x.DType == tensor.String || to == tensor.String {
		v, err := tensor.Convert(x, to, o)
		c.check(c.portName(0), err)
		copy(out.Strings, v.Strings)
		copy(out.Bytes(), v.Bytes())
		return
	}
	c.check(c.portName(0), c.blocks(x.Len(), func(lo, hi int) error {
		v, err := tensor.Convert(part(x, lo, hi), to, o)
		if err != nil {
			return err
		}
		copy(part(out, lo, hi).Bytes(), v.Bytes())
		return nil
	}))
}

// bitCast keeps the bytes.
func bitCast(c *Call) {
	x, to := c.input(0), c.dtypeAttr("to", tensor.Invalid)
	if to == tensor.String || x.DType == tensor.String || to.Bits() != x.DType.Bits() {
		c.fail("to", ErrAttribute, "%v has another width than %v", to, x.DType)
	}
	copy(c.result(0, to, x.Shape).Bytes(), x.Bytes())
}
