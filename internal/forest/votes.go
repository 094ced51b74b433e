package forest

import (
	"encoding/binary"
	"math"
)

// voteLists are lists of votes, each there once. A leaf holds the number of its list.
type voteLists struct {
	votes  []shortVote
	begin  []uint32          // of a list, and behind the last one
	number map[string]uint32 // while the forest is packed
}

type shortVote struct {
	target int32
	weight float32
}

// hold returns the number of the list with these votes; ok is false where there are too many.
func (l *voteLists) hold(votes []Vote) (number uint32, ok bool) {
	var key []byte
	for _, v := range votes {
		key = binary.LittleEndian.AppendUint32(key, uint32(v.Target))
		key = binary.LittleEndian.AppendUint32(key, math.Float32bits(float32(v.Weight)))
	}
	if number, ok = l.number[string(key)]; ok {
		return number, true
	}
	if len(l.votes)+len(votes) > math.MaxInt32 {
		return 0, false
	}
	for _, v := range votes {
		l.votes = append(l.votes, shortVote{int32(v.Target), float32(v.Weight)})
	}
	number = uint32(len(l.begin) - 1)
	l.begin = append(l.begin, uint32(len(l.votes)))
	l.number[string(key)] = number
	return number, true
}

// of returns the votes of a list.
func (l *voteLists) of(number uint32) []shortVote { return l.votes[l.begin[number]:l.begin[number+1]] }

// vote adds the votes of a leaf.
func (l *voteLists) vote(scores []float64, held uint32, a Aggregate) {
	if a <= Sum {
		for _, v := range l.of(held) {
			scores[v.target] += float64(v.weight)
		}
		return
	}
	for _, v := range l.of(held) {
		scores[v.target] = a.with(scores[v.target], float64(v.weight))
	}
}

// voteTable has a weight for every target in every list of votes, 0 where the list has none.
type voteTable struct {
	weights []float32 // [lists, width]
	width   int       // targets, and as many more as make it a multiple of votesAtOnce
}

// votesAtOnce is for how many targets a row's votes are added side by side.
const votesAtOnce = 4

// table returns the lists as a table, nil where more than half of that would be empty, or a list has two votes for a target.
func (l *voteLists) table(targets int) *voteTable {
	lists := len(l.begin) - 1
	if lists == 0 || 2*len(l.votes) < lists*targets {
		return nil
	}
	t := &voteTable{width: (targets + votesAtOnce - 1) / votesAtOnce * votesAtOnce}
	t.weights = make([]float32, lists*t.width)
	for i := range lists {
		for _, v := range l.of(uint32(i)) {
			w := &t.weights[i*t.width+int(v.target)]
			if *w != 0 {
				return nil
			}
			*w = v.weight
		}
	}
	return t
}

// add adds the votes of n leaves to a row's scores; held has the number of a leaf's list every pitch elements.
func (t *voteTable) add(scores []float64, held []uint32, n, pitch int) {
	j := 0
	for ; j+votesAtOnce <= len(scores); j += votesAtOnce {
		t.addAt((*[votesAtOnce]float64)(scores[j:]), j, held, n, pitch)
	}
	if j < len(scores) {
		var s [votesAtOnce]float64
		copy(s[:], scores[j:])
		t.addAt(&s, j, held, n, pitch)
		copy(scores[j:], s[:])
	}
}

// addAt adds the votes for some targets, from number j on.
func (t *voteTable) addAt(s *[votesAtOnce]float64, j int, held []uint32, n, pitch int) {
	a, b, c, d := s[0], s[1], s[2], s[3]
	for k := range n {
		w := (*[votesAtOnce]float32)(t.weights[int(held[k*pitch])*t.width+j:])
		a += float64(w[0])
		b += float64(w[1])
		c += float64(w[2])
		d += float64(w[3])
	}
	s[0], s[1], s[2], s[3] = a, b, c, d
}
