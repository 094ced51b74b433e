//go:build !linux

package repository

// giveWay does nothing: other systems have no such thing for a thread.
func giveWay() {}

// onFirstThread is asked for the sake of giveWay alone.
func onFirstThread() bool { return false }
