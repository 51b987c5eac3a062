package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/warehouse"
)

// A Timeline draws when each stage ran: one lane for each kind of stage and
// host, time to the right.
type Timeline struct {
	Label string
	Ticks []Tick
	Lanes []Lane
}

// A Tick is a time on the axis; X is in per cent of the width.
type Tick struct{ X, Text string }

// A Lane is one row of a timeline. The paths are in a box 1000 wide and 10 high.
type Lane struct {
	Name, Took string
	Paths      []LanePath
}

// A LanePath draws all stages of a lane that went the same way.
type LanePath struct{ Class, D string }

// idleTime is how long no stage ran between the first and the last; a stage
// without an end ran until last.
func idleTime(stages []warehouse.StageRow, last time.Time) time.Duration {
	byStart := slices.Clone(stages)
	slices.SortStableFunc(byStart, func(x, y warehouse.StageRow) int { return x.StartedAt.Compare(*y.StartedAt) })
	var idle time.Duration
	busyUntil := *byStart[0].StartedAt
	for _, st := range byStart {
		if gap := st.StartedAt.Sub(busyUntil); gap > 0 {
			idle += gap
		}
		end := last
		if st.EndedAt != nil {
			end = *st.EndedAt
		}
		if end.After(busyUntil) {
			busyUntil = end
		}
	}
	return idle
}

// timeline puts the stages in lanes, in the order in which they first ran.
func timeline(stages []warehouse.StageRow, first, last time.Time) *Timeline {
	wall := last.Sub(first)
	if wall <= 0 {
		return nil
	}
	t := &Timeline{Label: fmt.Sprintf("Timeline of %s over %s", plural(len(stages), "stage"), span(wall))}
	for i := range 5 {
		t.Ticks = append(t.Ticks, Tick{X: strconv.Itoa(25 * i), Text: span(wall * time.Duration(i) / 4)})
	}
	hosts := map[string]bool{}
	for _, st := range stages {
		hosts[st.Host] = true
	}
	type lane struct {
		name  string
		total time.Duration
		n     int
		paths map[string]*strings.Builder
	}
	var lanes []*lane
	by := map[string]*lane{}
	for _, st := range stages {
		name := text(strings.ReplaceAll(st.Stage, "_", " "))
		if len(hosts) > 1 && st.Host != "" {
			name += " · " + text(st.Host)
		}
		l := by[name]
		if l == nil {
			l = &lane{name: name, paths: map[string]*strings.Builder{}}
			by[name] = l
			lanes = append(lanes, l)
		}
		end := last
		if st.EndedAt != nil {
			end = *st.EndedAt
		}
		class := "run-f"
		if m := stageMark(st.Status); m.Class != "pass" {
			class = fill(m.Class)
		}
		p := l.paths[class]
		if p == nil {
			p = &strings.Builder{}
			l.paths[class] = p
		}
		took := end.Sub(*st.StartedAt)
		l.total += took
		l.n++
		// A stage of a moment is still a visible line.
		x := min(1000*st.StartedAt.Sub(first).Seconds()/wall.Seconds(), 998)
		fmt.Fprintf(p, "M%.1f 0h%.1fv10h-%.1fz", x, max(1000*took.Seconds()/wall.Seconds(), 2), max(1000*took.Seconds()/wall.Seconds(), 2))
	}
	for _, l := range lanes {
		out := Lane{Name: l.name, Took: span(l.total)}
		if l.n > 1 {
			out.Took += fmt.Sprintf(" in %d", l.n)
		}
		for _, class := range slices.Sorted(maps.Keys(l.paths)) {
			out.Paths = append(out.Paths, LanePath{class, l.paths[class].String()})
		}
		t.Lanes = append(t.Lanes, out)
	}
	return t
}
