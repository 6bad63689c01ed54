package task

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// team plays rounds of assignments as members do: it gives up what it was not given, then joins
// again.
type team struct {
	tasks    []shared
	standbys int
	claims   map[string]claim
	given    map[string]given
	rounds   int
	// moves counts the tasks that began somewhere.
	moves int
}

func newTeam(tasks, stateful, standbys int) *team {
	f := &team{standbys: standbys, claims: map[string]claim{}}
	for i := range tasks {
		f.tasks = append(f.tasks, shared{fmt.Sprintf("t%02d", i), i < stateful})
	}
	return f
}

func (f *team) join(m string)  { f.claims[m] = claim{Files: true} }
func (f *team) leave(m string) { delete(f.claims, m) }

// settle plays rounds until nothing changes; copies become warm between two of them.
func (f *team) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		f.rounds++
		f.given = assign(f.tasks, f.claims, f.standbys)
		f.check(t)
		changed := false
		for m, g := range f.given {
			was := f.claims[m]
			for _, id := range g.Active {
				if !slices.Contains(was.Owned, id) {
					f.moves++
					changed = true
				}
			}
			next := claim{Generation: g.Generation, Owned: g.Active, Files: true, Alone: g.Alone,
				Warm: map[string]int64{}}
			for _, id := range g.Standby {
				next.Warm[id] = 10
				_, warm := was.Warm[id]
				changed = changed || !warm
			}
			changed = changed || len(was.Owned) != len(g.Active)
			f.claims[m] = next
		}
		if !changed {
			return
		}
	}
	t.Fatal("it never settles")
}

// check holds in every round: nobody gets what somebody else still runs, nothing is given twice,
// one member is alone, a copy is never where the task runs.
func (f *team) check(t *testing.T) {
	t.Helper()
	owner := map[string]string{}
	for m, c := range f.claims {
		for _, id := range c.Owned {
			owner[id] = m
		}
	}
	seen, alone := map[string]bool{}, 0
	for m, g := range f.given {
		for _, id := range g.Active {
			require.False(t, seen[id], "%s twice", id)
			seen[id] = true
			if o := owner[id]; o != "" {
				require.Equal(t, o, m, "%s is still run by %s", id, o)
			}
			require.NotContains(t, g.Standby, id)
		}
		if g.Alone {
			alone++
		}
	}
	require.Equal(t, 1, alone)
}

func (f *team) loads() []int {
	var loads []int
	for _, m := range slices.Sorted(maps.Keys(f.given)) {
		loads = append(loads, len(f.given[m].Active))
	}
	slices.Sort(loads)
	return loads
}

func TestAssignBalancesAndMovesLittle(t *testing.T) {
	f := newTeam(8, 0, 0)
	f.join("a")
	f.settle(t)
	require.Equal(t, []int{8}, f.loads())
	f.join("b")
	f.moves = 0
	f.settle(t)
	require.Equal(t, []int{4, 4}, f.loads())
	require.Equal(t, 4, f.moves, "only what b gets moves")
	f.join("c")
	f.moves = 0
	f.settle(t)
	require.Equal(t, []int{2, 3, 3}, f.loads())
	require.Equal(t, 2, f.moves)
	f.moves = 0
	f.settle(t)
	require.Zero(t, f.moves, "nothing moves without a cause")
	f.leave("a")
	f.settle(t)
	require.Equal(t, []int{4, 4}, f.loads())
	require.LessOrEqual(t, f.moves, 3, "only what a had moves")
}

// TestAssignWarmsUpBeforeItMoves: a task with state stays with its owner until the next one has a
// warm copy.
func TestAssignWarmsUpBeforeItMoves(t *testing.T) {
	f := newTeam(2, 2, 0)
	f.join("a")
	f.settle(t)
	f.join("b")
	got := assign(f.tasks, f.claims, 0)
	require.Equal(t, []string{"t00", "t01"}, got["a"].Active)
	require.Empty(t, got["b"].Active)
	require.Equal(t, []string{"t01"}, got["b"].Standby)
	b := f.claims["b"]
	b.Warm = map[string]int64{"t01": warmLag + 1}
	f.claims["b"] = b
	require.Len(t, assign(f.tasks, f.claims, 0)["a"].Active, 2)
	b.Warm["t01"] = warmLag
	got = assign(f.tasks, f.claims, 0)
	require.Equal(t, []string{"t00"}, got["a"].Active, "a gives it up first")
	require.Empty(t, got["b"].Active)
	f.settle(t)
	require.Equal(t, []int{1, 1}, f.loads())
}

// TestAssignStandbyTakesOver: when an owner is gone, its tasks go to who has copies of their state.
func TestAssignStandbyTakesOver(t *testing.T) {
	f := newTeam(6, 6, 1)
	for _, m := range []string{"a", "b", "c"} {
		f.join(m)
	}
	f.settle(t)
	copies := map[string]string{}
	for m, g := range f.given {
		for _, id := range g.Standby {
			require.Empty(t, copies[id], "one copy each")
			copies[id] = m
		}
	}
	require.Len(t, copies, 6)
	lost := f.given["a"].Active
	f.leave("a")
	f.given = assign(f.tasks, f.claims, 1)
	for _, id := range lost {
		require.Contains(t, f.given[copies[id]].Active, id)
	}
}

// TestAssignLaterClaimWins: a member that was out (suspended, cut off) and comes back with old
// claims does not get back what others run meanwhile.
func TestAssignLaterClaimWins(t *testing.T) {
	f := newTeam(2, 0, 0)
	f.claims["a"] = claim{Generation: 3, Owned: []string{"t00", "t01"}}
	f.claims["b"] = claim{Generation: 5, Owned: []string{"t00"}}
	got := assign(f.tasks, f.claims, 0)
	require.Equal(t, []string{"t00"}, got["b"].Active)
	require.Equal(t, []string{"t01"}, got["a"].Active)
	require.Equal(t, 6, got["a"].Generation)
}

// TestAssignRandomly lets members come and go, also in the middle of a move.
func TestAssignRandomly(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		f := newTeam(1+rnd.IntN(12), rnd.IntN(12), rnd.IntN(3))
		f.join("m0")
		for i := range 20 {
			switch m := fmt.Sprint("m", rnd.IntN(5)); {
			case rnd.IntN(3) > 0:
				if _, in := f.claims[m]; !in {
					f.join(m)
				}
			case len(f.claims) > 1:
				f.leave(m)
			}
			if rnd.IntN(2) == 0 && i < 19 {
				f.given = assign(f.tasks, f.claims, f.standbys)
				f.check(t)
				continue
			}
			f.settle(t)
			loads := f.loads()
			require.LessOrEqual(t, loads[len(loads)-1]-loads[0], 1, "seed %d", seed)
		}
	}
}
