//go:build amd64 || arm64

package isolate

// noRoom is the code of a child whose memory lies where the region has to be. The next one's lies elsewhere: Go chooses the
// place of its heap at random.
const noRoom = -1

// attempts bounds how many children are started for a place.
const attempts = 20

// maxText is how much of a text is sent.
const maxText = 16 << 10

// Messages from the child.
const (
	messageHello = iota + 1
	messageWake
	messageDone
	messageLog
)

// setup is the message to the child.
type setup struct {
	Base    uint64 `json:"base"`
	Size    uint64 `json:"size"`
	Slots   uint64 `json:"slots"` // address
	Library string `json:"library"`
}
