package cpu

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Unique of elements, or of slices along an axis. Strings are numbered first, in their order. Equal ones are found in a table of open addresses, so that of n elements only those that
// differ are sorted: O(n + u·log u) for u of them.

func uniqueSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if x := n.Inputs[0]; uniqueKeys[x.Type.DType] == nil && !isText(x) {
		return nil, property.Because(property.DTypeReason, "%v is %v", x, x.Type.DType)
	}
	return choosingSignatures(n)
}

// uniqueKeys write, for each type, integers that are ordered as elements are: NaN behind all numbers, and the zeros as one.
var uniqueKeys = map[tensor.DType]func(to []uint64, from []byte){
	tensor.Float32: keysBy(rank32), tensor.Float64: keysBy(rank64), tensor.Bool: keysBy(unsignedKey[uint8]), tensor.Uint8: keysBy(unsignedKey[uint8]),
	tensor.Uint16: keysBy(unsignedKey[uint16]), tensor.Uint32: keysBy(unsignedKey[uint32]), tensor.Uint64: keysBy(unsignedKey[uint64]),
	tensor.Int8: keysBy(signedKey[int8]), tensor.Int16: keysBy(signedKey[int16]), tensor.Int32: keysBy(signedKey[int32]), tensor.Int64: keysBy(signedKey[int64]),
}

func unsignedKey[T uint8 | uint16 | uint32 | uint64](x T) uint64 { return uint64(x) }

func signedKey[T int8 | int16 | int32 | int64](x T) uint64 { return uint64(int64(x)) ^ 1<<63 }

func keysBy[T tensor.Element](key func(T) uint64) func(to []uint64, from []byte) {
	return func(to []uint64, from []byte) {
		for i, x := range place.Elements[T](from) {
			to[i] = key(x)
		}
	}
}

// uniques is what a Unique has found, and the memory in which it works.
type uniques struct {
	keys            []uint64
	outer, n, inner int     // slices j of x[outer, n, inner] are compared
	slots           []int32 // one more than the number of a slice that was found, 0 for none
	groups          []int32 // by slice: which of those that differ it is, by their first places
	first, counts   []int32 // of these
	order, place    []int32 // of these: the place-th is which; which is at what place
}

// same reports whether two slices are equal.
func (u *uniques) same(a, b int) bool {
	if u.outer == 1 && u.inner == 1 {
		return u.keys[a] == u.keys[b]
	}
	for o := range u.outer {
		if !slices.Equal(u.slice(o, a), u.slice(o, b)) {
			return false
		}
	}
	return true
}

// slice returns the keys of slice j that lie together.
func (u *uniques) slice(o, j int) []uint64 { return u.keys[(o*u.n+j)*u.inner:][:u.inner] }

// uniqueSeed is another one in each process, so that nobody can choose elements that are all looked for at the same place.
var uniqueSeed = rand.Uint64()

// slot returns where slice j is looked for first.
func (u *uniques) slot(j int) int {
	h := uniqueSeed
	for o := range u.outer {
		for _, k := range u.slice(o, j) {
			high, low := bits.Mul64(h^k^0x9e3779b97f4a7c15, 0xd1b54a32d192ed03)
			h = high ^ low
		}
	}
	return int(h & uint64(len(u.slots)-1))
}

// find groups the slices.
func (u *uniques) find(done func() bool) {
	size := 4 << bits.Len(uint(u.n))
	u.slots = slices.Grow(u.slots[:0], size)[:size]
	clear(u.slots)
	u.groups, u.first, u.counts = slices.Grow(u.groups[:0], u.n)[:u.n], u.first[:0], u.counts[:0]
	for j := range u.n {
		if j&1023 == 1023 && done() {
			return
		}
		at := u.slot(j)
		for u.slots[at] > 0 && !u.same(int(u.first[u.slots[at]-1]), j) {
			at = (at + 1) & (size - 1)
		}
		if u.slots[at] == 0 {
			u.first, u.counts = append(u.first, int32(j)), append(u.counts, 0)
			u.slots[at] = int32(len(u.first))
		}
		g := u.slots[at] - 1
		u.groups[j], u.counts[g] = g, u.counts[g]+1
	}
}

// arrange puts those that differ into the order of the result: by their first places, or by their elements.
func (u *uniques) arrange(sorted bool) {
	u.order = slices.Grow(u.order[:0], len(u.first))[:len(u.first)]
	u.place = slices.Grow(u.place[:0], len(u.first))[:len(u.first)]
	for g := range u.order {
		u.order[g] = int32(g)
	}
	if sorted {
		slices.SortFunc(u.order, func(a, b int32) int { return u.compare(int(u.first[a]), int(u.first[b])) })
	}
	for at, g := range u.order {
		u.place[g] = int32(at)
	}
}

// compare orders slices by their first elements that differ.
func (u *uniques) compare(a, b int) int {
	for o := range u.outer {
		if r := slices.Compare(u.slice(o, a), u.slice(o, b)); r != 0 {
			return r
		}
	}
	return 0
}

func chooseUnique(c *choice) error {
	x, u := c.x[0], &c.uniques
	shape, err := u.group(c, func() error {
		uniqueKeys[x.DType](u.keys, x.Bytes())
		return nil
	})
	if err != nil {
		return err
	}
	y, err := c.result(0, x.DType, shape)
	if err != nil {
		return err
	}
	if len(y) > 0 {
		write(u, y, x.Bytes(), u.inner*x.DType.Size())
	}
	return u.tell(c)
}

// uniqueTexts is Unique of strings.
func uniqueTexts(c *choice) error {
	x, u := c.x[0], &c.uniques
	// Half of the places of a map are in use at least, each of a string, a number and a byte.
	if err := c.reserve(x.Len() * (2*(16+8+1) + 16)); err != nil {
		return err
	}
	shape, err := u.group(c, func() error { return numberTexts(c, u.keys, x.Strings) })
	if err != nil {
		return err
	}
	y, err := c.texts(0, shape)
	if err != nil {
		return err
	}
	if len(y) > 0 {
		write(u, y, x.Strings, u.inner)
	}
	return u.tell(c)
}

// numberTexts writes for each string how many different ones are less.
func numberTexts(c *choice, keys []uint64, list []string) error {
	numbers := map[string]uint64{}
	var different []string
	for i, s := range list {
		if i&1023 == 1023 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		k, ok := numbers[s]
		if !ok {
			k = uint64(len(different))
			numbers[s], different = k, append(different, s)
		}
		keys[i] = k
	}
	order := make([]uint64, len(different))
	for k := range order {
		order[k] = uint64(k)
	}
	slices.SortFunc(order, func(a, b uint64) int { return strings.Compare(different[a], different[b]) })
	less := make([]uint64, len(order))
	for at, k := range order {
		less[k] = uint64(at)
	}
	for i, k := range keys {
		keys[i] = less[k]
	}
	return nil
}

// group finds the slices that differ, by the keys that read writes, and arranges them. It returns the shape of them all.
func (u *uniques) group(c *choice, read func() error) (shape []int, err error) {
	x, n := c.x[0], c.in.n
	u.outer, u.n, u.inner = 1, x.Len(), 1
	axis, shape := 0, []int{0}
	if n.Attrs.Lookup("axis") != nil {
		axis = axisOf(n, 0, len(x.Shape))
		u.outer, u.n, u.inner = product(x.Shape[:axis]), x.Shape[axis], product(x.Shape[axis+1:])
		shape = slices.Clone(x.Shape)
	}
	if u.n >= 1<<28 {
		return nil, property.Because(property.ShapeReason, "%v has %d elements or slices", n.Inputs[0], u.n)
	}
	if err := c.reserve(8*x.Len() + 60*u.n); err != nil {
		return nil, err
	}
	u.keys = slices.Grow(u.keys[:0], x.Len())[:x.Len()]
	if err := read(); err != nil {
		return nil, err
	}
	u.find(func() bool { return c.ctx.Err() != nil })
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	u.arrange(n.Int("sorted", 1) != 0)
	shape[axis] = len(u.order)
	return shape, nil
}

// write writes slices of size bytes, or strings.
func write[T byte | string](u *uniques, y, x []T, size int) {
	for o := range u.outer {
		for at, g := range u.order {
			copy(y[(o*len(u.order)+at)*size:][:size], x[(o*u.n+int(u.first[g]))*size:])
		}
	}
}

// tell writes where each was found first, what each slice is in the result, and how often each was found.
func (u *uniques) tell(c *choice) error {
	k := len(u.order)
	for i, length := range []int{k, u.n, k} {
		b, err := c.result(i+1, tensor.Int64, []int{length})
		if err != nil {
			return err
		}
		if len(b) == 0 {
			continue
		}
		out := place.Elements[int64](b)
		switch i {
		case 0:
			for at, g := range u.order {
				out[at] = int64(u.first[g])
			}
		case 1:
			for j, g := range u.groups {
				out[j] = int64(u.place[g])
			}
		default:
			for at, g := range u.order {
				out[at] = int64(u.counts[g])
			}
		}
	}
	return nil
}

func init() {
	table.Register("Unique", operator{Signatures: uniqueSignatures})
	textTable.Register("Unique", operator{Signatures: uniqueSignatures})
}
