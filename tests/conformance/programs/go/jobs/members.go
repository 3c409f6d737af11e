package jobs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// CommitInterval is how often a member commits by itself.
const CommitInterval = 300 * time.Millisecond

// Wish says which member to be (see members/member.py).
type Wish struct {
	Bootstrap   string `json:"bootstrap"`
	Topic       string `json:"topic"`
	Group       string `json:"group"`
	Name        string `json:"name"`
	Strategy    string `json:"strategy"`
	SessionMs   int64  `json:"session_ms"`
	HeartbeatMs int64  `json:"heartbeat_ms"`
	Instance    string `json:"instance"`
}

// Servers are the addresses to begin with.
func (w Wish) Servers() []string { return strings.Split(w.Bootstrap, ",") }

// Session is the time after which a member that is not heard of is taken for dead.
func (w Wish) Session() time.Duration { return time.Duration(w.SessionMs) * time.Millisecond }

// Strategies are the assignors, the one that is wanted most first.
func (w Wish) Strategies() []string { return strings.Split(w.Strategy, ",") }

// Heartbeat is the time between two heartbeats.
func (w Wish) Heartbeat() time.Duration { return time.Duration(w.HeartbeatMs) * time.Millisecond }

// Place is a partition and the offset of a record in it.
type Place [2]int64

// Telling writes what a member owns and reads. It may be used by several goroutines.
type Telling struct {
	guard sync.Mutex
	owned map[int32]bool
}

// Member is true where this process was started as a member of a group: then `join` runs until
// the input ends.
func Member(join func(Wish, *Telling, <-chan struct{}) error) bool {
	if len(os.Args) < 2 {
		return false
	}
	var wish Wish
	err := json.Unmarshal([]byte(os.Args[1]), &wish)
	if err == nil {
		over := make(chan struct{})
		go func() {
			_, _ = bufio.NewReader(os.Stdin).ReadString(0)
			close(over)
		}()
		err = join(wish, &Telling{owned: map[int32]bool{}}, over)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// Came tells of partitions that the member has now as well.
func (t *Telling) Came(partitions []int32) { t.change(partitions, true) }

// Went tells of partitions that the member has no longer.
func (t *Telling) Went(partitions []int32) { t.change(partitions, false) }

// Read tells of records that the member has worked on.
func (t *Telling) Read(places ...Place) {
	t.guard.Lock()
	defer t.guard.Unlock()
	write(map[string]any{"read": places})
}

func (t *Telling) change(partitions []int32, there bool) {
	t.guard.Lock()
	defer t.guard.Unlock()
	for _, each := range partitions {
		if there {
			t.owned[each] = true
		} else {
			delete(t.owned, each)
		}
	}
	all := make([]int32, 0, len(t.owned))
	for each := range t.owned {
		all = append(all, each)
	}
	slices.Sort(all)
	write(map[string]any{"owned": all})
}

func write(fact any) {
	line, err := json.Marshal(fact)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(1)
	}
}
