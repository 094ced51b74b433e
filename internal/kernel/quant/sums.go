package quant

// ChannelSums writes the sums of len(dst) columns of rows of bytes, which lie ld apart: of int8 where signed is set, else of uint8. Sums of
// more than 2^23 rows may not fit.
func (k Kernels) ChannelSums(dst []int32, src []byte, ld, rows int, signed bool) {
	n := len(dst)
	if n == 0 {
		return
	}
	if rows <= 0 {
		clear(dst)
		return
	}
	first(src, (rows-1)*ld+n)
	at := 0
	for ; n-at >= 4*Group; at += 4 * Group {
		k.groupSums(true, dst[at:], src[at:], ld, rows, signed)
	}
	for ; n-at >= Group; at += Group {
		k.groupSums(false, dst[at:], src[at:], ld, rows, signed)
	}
	switch {
	case at == n:
	case n >= Group: // the last group overlaps the one before, and has the same sums there
		k.groupSums(false, dst[n-Group:], src[n-Group:], ld, rows, signed)
	default:
		clear(dst)
		if ld == n { // pixels stand side by side: as many as make groups are a row of their own
			var wide [Group * (Group - 1)]int32
			row := Group * n
			k.ChannelSums(wide[:row], src, row, rows/Group, signed)
			for i, s := range wide[:row] {
				dst[i%n] += s
			}
			src, rows = src[rows/Group*row:], rows%Group
		}
		for r := range rows {
			for i, b := range src[r*ld:][:n] {
				dst[i] += number(b, signed)
			}
		}
	}
}

// groupSums writes the sums of a group of columns, or of four.
func (k Kernels) groupSums(wide bool, dst []int32, src []byte, ld, rows int, signed bool) {
	groups := 1
	if wide {
		groups = 4
	}
	var part [4 * Group]int32
	for from := 0; from < rows; from += callElements / Group {
		n := min(rows-from, callElements/Group)
		if from == 0 {
			channelSums(k.set, wide, signed, &dst[0], &src[0], ld, n)
			continue
		}
		channelSums(k.set, wide, signed, &part[0], &src[from*ld], ld, n)
		for i, s := range part[:groups*Group] {
			dst[i] += s
		}
	}
}

func genericChannelSums(wide, signed bool, dst *int32, src *byte, ld, rows int) {
	n := Group
	if wide {
		n = 4 * Group
	}
	d := view(dst, n)
	clear(d)
	for r := range rows {
		for i, b := range view(advance(src, r*ld), n) {
			d[i] += number(b, signed)
		}
	}
}

// Twice writes each byte of src two times to dst.
func (k Kernels) Twice(dst, src []byte) {
	n := len(src)
	dst = dst[:2*n]
	groups := n / Group
	for at := 0; at < groups; at += callElements / Group {
		twice(k.set, &dst[2*Group*at], &src[Group*at], min(groups-at, callElements/Group))
	}
	if at := Group * groups; at < n {
		genericTwice(&dst[2*at], &src[at], n-at)
	}
}

func genericTwice(dst, src *byte, n int) {
	d := view(dst, 2*n)
	for i, b := range view(src, n) {
		d[2*i], d[2*i+1] = b, b
	}
}
