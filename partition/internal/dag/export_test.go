package dag

// List gives the tests of package dag_test access to the order list.
type List struct{ l list }

func NewList(n int32) *List {
	l := new(List)
	l.l.reset(&work{}, n)
	return l
}

func (l *List) InsertAfter(at, x int32) { l.l.insertAfter(at, x) }
func (l *List) Remove(x int32)          { l.l.remove(x) }
func (l *List) Replace(y, x int32)      { l.l.replace(y, x) }
func (l *List) Before(x, y int32) bool  { return l.l.label[x] < l.l.label[y] }

func (l *List) Items() []int32 {
	var items []int32
	for x := l.l.first; x >= 0; x = l.l.next[x] {
		items = append(items, x)
	}
	return items
}

// Items0 returns the first item.
func (l *List) Items0() int32 { return l.l.first }
