package offheap

// SetPageCosts sets what making pages is known to have taken, in nanoseconds for each HugePage bytes, and returns a function that undoes it.
func SetPageCosts(huge, small int64) (undo func()) {
	c := &pageCosts
	oldHuge, oldSmall := c.huge.Load(), c.small.Load()
	c.huge.Store(huge)
	c.small.Store(small)
	c.smallMade.Store(0)
	return func() { c.huge.Store(oldHuge); c.small.Store(oldSmall) }
}
