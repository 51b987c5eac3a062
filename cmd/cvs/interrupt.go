package main

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// interrupts answers Ctrl-C and TERM: the first asks the command to end in
// order, the second ends the program at once and says what is left. It lives as
// long as the program.
func interrupts(signals <-chan os.Signal, e *env, cancel context.CancelFunc, exit func(code int)) {
	<-signals
	if e.rest.lines() != nil {
		fmt.Fprintln(e.stderr, "interrupted: cleaning up; interrupt again to end at once")
	}
	cancel()
	<-signals
	left := e.rest.lines()
	fmt.Fprintln(e.stderr, "cvs: interrupted again: cleaning up was not waited for")
	for _, line := range left {
		fmt.Fprintln(e.stderr, visible(line))
	}
	exit(130)
}

// A leftovers is what a command would leave behind if it ended now. A nil one
// takes everything and tells nothing.
type leftovers struct {
	mu   sync.Mutex
	kept string // what is kept in any case; "" while nothing has to be cleaned up
	left []string
}

// busy says that from now on an interrupt has something to clean up, or with ""
// that it has not any more.
func (l *leftovers) busy(kept string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept, l.left = kept, nil
}

func (l *leftovers) leave(lines []string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = lines
}

// lines are for who does not wait; none if nothing is to be cleaned up.
func (l *leftovers) lines() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == "" {
		return nil
	}
	return append(l.left[:len(l.left):len(l.left)], l.kept)
}
