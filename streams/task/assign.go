package task

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// warmLag is how many changelog records behind a standby may be to count as ready to take over.
const warmLag = 10_000

// claim is what a member of the group says of itself when it joins (JSON).
type claim struct {
	// Generation is that of the last assignment it got; of two that claim a task the later is right.
	Generation int `json:"generation"`
	// Owned are the tasks it runs, or is about to give up.
	Owned []string `json:"owned"`
	// Done are those of them that have processed the end of their input.
	Done []string `json:"done,omitempty"`
	// Warm are the changelog records its copies of other tasks' state are behind.
	Warm map[string]int64 `json:"warm,omitempty"`
	// Alone tells that it does what only one member may do.
	Alone bool `json:"alone,omitempty"`
	// Files tells that it can keep state files, so that it may be given standbys.
	Files bool `json:"files,omitempty"`
	// Address is where others can ask it for the rows of its tasks.
	Address string `json:"address,omitempty"`
}

// given is what a member gets (JSON).
type given struct {
	Generation int      `json:"generation"`
	Active     []string `json:"active,omitempty"`
	Standby    []string `json:"standby,omitempty"`
	Alone      bool     `json:"alone,omitempty"`
	// Done are the tasks of all members that have processed the end of their input.
	Done []string `json:"done,omitempty"`
	// Finished tells that all tasks have processed the end of their input.
	Finished bool `json:"finished,omitempty"`
	// Places are the addresses of the members that run tasks, by task.
	Places map[string]string `json:"places,omitempty"`
}

// shared is one task to be given to somebody.
type shared struct {
	id       string
	stateful bool
}

// assignment works out who runs what. It is a pure function of the claims.
type assignment struct {
	tasks  []shared
	claims map[string]claim
	// members, by what they own, most first.
	members []string
	owner   map[string]string // by task, who runs it now
	active  map[string]string // by task, who shall run it; not in it: its owner gives it up first
	load    map[string]int
	quota   map[string]int
	copies  map[string][]string // by task, who shall keep a copy of its state
}

// assign gives tasks to members so that all have equally many, those who run a task keep it where
// they can, and a task moves in two steps: its owner gives it up, then somebody else gets it. A
// task with state moves only to a member whose copy of it is warm, if that can have one; until then
// it stays where it is, and the copy is made. standbys more copies of each are kept.
func assign(tasks []shared, claims map[string]claim, standbys int) map[string]given {
	a := &assignment{tasks: tasks, claims: claims, owner: map[string]string{},
		active: map[string]string{}, load: map[string]int{}, quota: map[string]int{},
		copies: map[string][]string{}}
	a.settle()
	a.keep()
	a.place()
	a.copy(standbys)
	return a.result()
}

// settle finds the owners, and how many tasks each member may have.
func (a *assignment) settle() {
	a.members = slices.Sorted(maps.Keys(a.claims))
	known := map[string]bool{}
	for _, t := range a.tasks {
		known[t.id] = true
	}
	for _, m := range a.members {
		for _, id := range a.claims[m].Owned {
			have, taken := a.owner[id]
			if known[id] && (!taken || a.claims[m].Generation > a.claims[have].Generation) {
				a.owner[id] = m
			}
		}
	}
	owned := map[string]int{}
	for _, m := range a.owner {
		owned[m]++
	}
	slices.SortStableFunc(a.members, func(x, y string) int { return cmp.Compare(owned[y], owned[x]) })
	for i, m := range a.members {
		a.quota[m] = len(a.tasks) / len(a.members)
		if i < len(a.tasks)%len(a.members) {
			a.quota[m]++
		}
	}
}

// keep leaves tasks with their owners, up to their quota.
func (a *assignment) keep() {
	for _, t := range a.tasks {
		if m, ok := a.owner[t.id]; ok && a.load[m] < a.quota[m] {
			a.active[t.id] = m
			a.load[m]++
		}
	}
}

// place finds members for the tasks that are left.
func (a *assignment) place() {
	for _, t := range a.tasks {
		if a.active[t.id] != "" {
			continue
		}
		to := a.target(t)
		a.load[to]++
		owner, owned := a.owner[t.id]
		switch {
		case !owned:
			a.active[t.id] = to
		case t.stateful && a.claims[to].Files && a.lag(to, t) > warmLag:
			a.active[t.id] = owner // until the copy is warm
			a.copies[t.id] = append(a.copies[t.id], to)
		}
	}
}

// target is the member with room whose copy of the task is best, or who has least.
func (a *assignment) target(t shared) string {
	best := ""
	for _, m := range a.members {
		if a.load[m] >= a.quota[m] {
			continue
		}
		if best == "" || cmp.Or(cmp.Compare(a.lag(m, t), a.lag(best, t)),
			cmp.Compare(a.load[m], a.load[best])) < 0 {
			best = m
		}
	}
	return best
}

// lag is how far behind a member's copy of a task is.
func (a *assignment) lag(m string, t shared) int64 {
	if lag, ok := a.claims[m].Warm[t.id]; ok && t.stateful {
		return lag
	}
	return math.MaxInt64
}

// copy chooses who keeps copies of the state of tasks that others run.
func (a *assignment) copy(standbys int) {
	kept := map[string]int{}
	for _, t := range a.tasks {
		if !t.stateful {
			continue
		}
		list := slices.Clone(a.members)
		slices.SortStableFunc(list, func(x, y string) int {
			return cmp.Or(cmp.Compare(a.lag(x, t), a.lag(y, t)), cmp.Compare(kept[x], kept[y]))
		})
		n := standbys + len(a.copies[t.id])
		for _, m := range list {
			if len(a.copies[t.id]) < n && m != a.active[t.id] && m != a.owner[t.id] &&
				a.claims[m].Files && !slices.Contains(a.copies[t.id], m) {
				a.copies[t.id] = append(a.copies[t.id], m)
			}
		}
		for _, m := range a.copies[t.id] {
			kept[m]++
		}
	}
}

func (a *assignment) result() map[string]given {
	out := map[string]given{}
	generation, alone := 0, ""
	done := map[string]bool{}
	for _, m := range a.members {
		c := a.claims[m]
		if c.Alone && (alone == "" || c.Generation > a.claims[alone].Generation) {
			alone = m
		}
		generation = max(generation, c.Generation)
		for _, id := range c.Done {
			done[id] = true
		}
	}
	finished := true
	for _, t := range a.tasks {
		finished = finished && done[t.id]
	}
	if alone == "" {
		alone = slices.Min(a.members)
	}
	places := map[string]string{}
	for id, m := range a.active {
		if address := a.claims[m].Address; address != "" {
			places[id] = address
		}
	}
	for _, m := range a.members {
		g := given{Generation: generation + 1, Alone: m == alone, Finished: finished,
			Done: slices.Sorted(maps.Keys(done)), Places: places}
		for _, t := range a.tasks {
			if a.active[t.id] == m {
				g.Active = append(g.Active, t.id)
			}
			if slices.Contains(a.copies[t.id], m) {
				g.Standby = append(g.Standby, t.id)
			}
		}
		out[m] = g
	}
	return out
}

// assignBytes is assign over what the group carries.
func assignBytes(tasks []shared, standbys int, said map[string][]byte) map[string][]byte {
	claims := map[string]claim{}
	for id, data := range said {
		var c claim
		if err := json.Unmarshal(data, &c); err != nil {
			continue // of another version: it gets nothing until it joins with a claim that is read
		}
		claims[id] = c
	}
	out := map[string][]byte{}
	if len(claims) == 0 {
		return out
	}
	for id, g := range assign(tasks, claims, standbys) {
		out[id] = encodeJSON(g)
	}
	return out
}

// encodeJSON encodes what has only fields that can be encoded.
func encodeJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // a bug: maps of strings and numbers
	}
	return data
}
