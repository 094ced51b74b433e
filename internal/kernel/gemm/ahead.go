package gemm

import "unsafe"

// ahead is the block of packed B that is read behind the one at hand: that of the next phase, or else the first one of the rows or
// columns that follow, or of the next product. While tiles compute, they have its panels fetched into the second-level cache, one a
// tile, spread over all tiles of the block at hand, so that the first tile of the next does not wait for memory: no processor fetches so
// far ahead by itself. A tile of few rows does little else than wait, and has all of its panels fetched a little before it reads them.
type ahead struct {
	block        uintptr // 0 is none; addresses, since they are not looked behind, and may lie beyond B
	panels, step int     // of the block, and bytes from one to the next
	few          int     // rows of tiles that fetch all panels, at most
	done, work   int     // rows of tiles: how many there were, and all that read the block at hand
}

// ahead begins phase i of a unit, where there is something to be fetched.
func (p *Plan) ahead(m *matrices, u *unit, i int) ahead {
	tiles := u.panels / u.width // beside each other
	x := ahead{few: p.has.fewRows, step: p.phases[0].full.bpanel, done: (u.row - u.super) * tiles, work: u.superRows * tiles}
	next, k0 := u.next, 0
	if len(p.phases) > 1 {
		x.done, x.work = 0, u.rows*tiles
		switch {
		case i+1 < len(p.phases):
			next, k0 = u.group, p.phases[i+1].k0
		case u.row+u.rows < u.super+u.superRows:
			next = u.group
		}
	}
	if next == nil && m.next != 0 {
		x.block, x.panels = m.next, p.groups[0].panels
	}
	if next != nil {
		x.block, x.panels = uintptr(m.b)+uintptr(p.sizeB()*next.col*p.spec.K+p.phases[0].full.bstep*k0), next.panels
	}
	return x
}

// fetch returns what the next tile, of so many rows, has fetched, 0 for nothing. The tile itself reads B at own.
func (x *ahead) fetch(rows int, own unsafe.Pointer) uintptr {
	if rows <= x.few {
		return uintptr(own) + fewAhead
	}
	if x.panels == 0 {
		return 0
	}
	from := x.done * x.panels / x.work
	x.done += rows
	if from == x.done*x.panels/x.work {
		return 0
	}
	return x.block + uintptr(from*x.step)
}
