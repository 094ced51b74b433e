package trees

import (
	"math"
	"unsafe"
)

// descend walks from a node to a leaf, and returns what that holds.
func descend(nodes *uint64, at int32, x *float32, bits int) uint32 {
	for {
		n := *(*uint64)(unsafe.Add(unsafe.Pointer(nodes), 8*uintptr(at)))
		way := int32(n >> 32)
		step := way >> (bits + 1)
		if step == 0 {
			return uint32(n)
		}
		v := *(*float32)(unsafe.Add(unsafe.Pointer(x), 4*uintptr(way&(1<<bits-1))))
		at += step
		if !(v <= math.Float32frombits(uint32(n))) && (v == v || way>>bits&1 == 0) {
			at++
		}
	}
}

func genericRow(out *uint32, nodes *uint64, roots *int32, n int, x *float32, bits int) {
	all := unsafe.Slice(out, n)
	for i, root := range unsafe.Slice(roots, n) {
		all[i] = descend(nodes, root, x, bits)
	}
}

func genericLeaves(out *uint32, nodes *uint64, roots *int32, n int, x *float32, offsets *int32, bits int) {
	all := unsafe.Slice(out, n*Walks)
	for t, root := range unsafe.Slice(roots, n) {
		for l, o := range unsafe.Slice(offsets, Walks) {
			all[t*Walks+l] = descend(nodes, root, (*float32)(unsafe.Add(unsafe.Pointer(x), 4*uintptr(o))), bits)
		}
	}
}

func genericSum(sums *float64, targets *int32, nodes *uint64, roots *int32, n int, x *float32, offsets *int32, bits int) {
	to := unsafe.Slice(targets, n)
	for t, root := range unsafe.Slice(roots, n) {
		part := unsafe.Slice((*float64)(unsafe.Add(unsafe.Pointer(sums), 8*Walks*uintptr(to[t]))), Walks)
		for l, o := range unsafe.Slice(offsets, Walks) {
			part[l] += float64(math.Float32frombits(descend(nodes, root, (*float32)(unsafe.Add(unsafe.Pointer(x), 4*uintptr(o))), bits)))
		}
	}
}
