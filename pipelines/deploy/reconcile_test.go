package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

func TestRevisionReplacesTheOneThatRuns(t *testing.T) {
	r := newRig(t)
	stop := r.reconcile()
	r.apply("p", "one")
	r.await("p", deploy.Running, 1)
	r.apply("p", "two")
	st := r.await("p", deploy.Running, 2)
	require.EqualValues(t, 3, st.RecordsIn)
	require.Equal(t, "start one, end one, start two", r.launch.said(), "the old one drains first")
	stop()
	require.Equal(t, "start one, end one, start two, end two", r.launch.said())
	reported, err := r.store.Statuses(r.ctx())
	require.NoError(t, err)
	require.Len(t, reported, 1)
	require.Equal(t, deploy.Stopped, reported[0].State)
	require.EqualValues(t, 3, reported[0].RecordsIn, "the counters stay")
	require.False(t, reported[0].At.IsZero())
}

func TestBadRevisionIsRefusedWhileTheOldOneRuns(t *testing.T) {
	for _, tc := range []struct{ text, why string }{
		{"broken", "revision 2: does not compile"},
		{"loses", "revision 2: state would be lost"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			r := newRig(t)
			r.reconcile()
			r.apply("p", "one")
			r.await("p", deploy.Running, 1)
			r.apply("p", tc.text)
			st := r.find("p", func(st deploy.Status) bool { return st.Error != "" })
			require.Equal(t, deploy.Running, st.State)
			require.Equal(t, 1, st.Revision)
			require.Equal(t, tc.why, st.Error)
			require.Equal(t, "start one", r.launch.said())
			r.apply("p", "three")
			require.Empty(t, r.await("p", deploy.Running, 3).Error)
		})
	}
}

// TestRevisionThatDoesNotBeginGivesTheOldOneBack: what only shows at the start, such as state that
// does not fit, must not leave the pipeline down.
func TestRevisionThatDoesNotBeginGivesTheOldOneBack(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "one")
	r.await("p", deploy.Running, 1)
	r.apply("p", "stillborn")
	st := r.find("p", func(st deploy.Status) bool { return st.Error != "" })
	require.Equal(t, 1, st.Revision)
	require.Equal(t, "revision 2: cannot begin", st.Error)
	if st.State != deploy.Running {
		st = r.await("p", deploy.Running, 1)
		require.Equal(t, "revision 2: cannot begin", st.Error, "the reason stays")
	}
	require.Equal(t, "start one, end one, start stillborn, end stillborn, start one",
		r.launch.said())
}

func TestFirstRevisionThatIsBadFails(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "broken")
	require.Equal(t, "revision 1: does not compile", r.await("p", deploy.Failed, 1).Error)
	r.apply("p", "stillborn")
	require.Equal(t, "cannot begin", r.await("p", deploy.Failed, 2).Error)
}

func TestFailedPipelineIsStartedByAnOrder(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "one")
	r.await("p", deploy.Running, 1)
	r.launch.end("one") <- errors.New("a record cannot be processed")
	st := r.await("p", deploy.Failed, 1)
	require.Equal(t, "a record cannot be processed", st.Error)
	require.EqualValues(t, 3, st.RecordsIn)
	require.Equal(t, "start one, end one", r.launch.said(), "it is not tried again by itself")
	_, err := r.store.SetWanted(r.ctx(), "p", deploy.WantRunning)
	require.NoError(t, err)
	require.Empty(t, r.await("p", deploy.Running, 1).Error)
}

func TestTemporaryTroubleIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "one")
	var since time.Time
	for i := range 3 {
		r.await("p", deploy.Running, 1)
		r.launch.end("one") <- fmt.Errorf("%w: disk full", deploy.ErrTemporary)
		st := r.await("p", deploy.Restarting, 1)
		require.Contains(t, st.Error, "disk full")
		require.Contains(t, st.Trouble.Error, "disk full")
		require.Contains(t, st.Trouble.Do, "it is tried again in ")
		if i == 0 {
			since = st.Trouble.Since
		}
		require.Equal(t, since, st.Trouble.Since, "it began with the first failure")
	}
	last := r.await("p", deploy.Running, 1)
	require.Empty(t, last.Error)
	require.Nil(t, last.Trouble)
}

// TestNoWayBackHasEnded: the revision before cannot be started any more either, and who asks the
// process is told so.
func TestNoWayBackHasEnded(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "once")
	r.await("p", deploy.Running, 1)
	r.apply("p", "stillborn")
	r.await("p", deploy.Failed, 2)
	require.Eventually(t, func() bool { return r.rec.Running()[0].State == deploy.Failed }, patience,
		statusPoll)
	require.Equal(t, "cannot begin", r.rec.Running()[0].Error)
}

// TestTroubleStaysUntilItRunsAgain: one that is tried again shows why also while it starts.
func TestTroubleStaysUntilItRunsAgain(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "restores")
	require.Nil(t, r.await("p", deploy.Starting, 1).Trouble)
	r.launch.end("restores") <- fmt.Errorf("%w: disk full", deploy.ErrTemporary)
	r.await("p", deploy.Restarting, 1)
	st := r.await("p", deploy.Starting, 1)
	require.NotNil(t, st.Trouble)
	require.Contains(t, st.Trouble.Error, "disk full")
}

// TestWhatIsNotTriedAgainHasNoTrouble: an order ends the trouble, whether it stops the pipeline or
// cannot be carried out.
func TestWhatIsNotTriedAgainHasNoTrouble(t *testing.T) {
	for state, order := range map[deploy.State]func(*rig){
		deploy.Stopped: func(r *rig) {
			_, err := r.store.SetWanted(r.ctx(), "p", deploy.WantStopped)
			require.NoError(r.t, err)
		},
		deploy.Failed: func(r *rig) { r.apply("p", "broken") },
	} {
		t.Run(string(state), func(t *testing.T) {
			r := newRig(t)
			r.retry = time.Hour
			r.reconcile()
			r.apply("p", "one")
			r.await("p", deploy.Running, 1)
			r.launch.end("one") <- fmt.Errorf("%w: disk full", deploy.ErrTemporary)
			require.NotNil(t, r.await("p", deploy.Restarting, 1).Trouble)
			order(r)
			st := r.find("p", func(st deploy.Status) bool { return st.State == state })
			require.Nil(t, st.Trouble)
			require.Eventually(t, func() bool {
				running := r.rec.Running()
				return len(running) == 0 || running[0].State == state && running[0].Trouble == nil
			}, patience, statusPoll, "who asks the process is told the same")
		})
	}
}

// TestFollowerTakesBackItsTrouble: the worker that speaks for the pipeline has no news, so it is
// for the one that told of the trouble to say that it is over.
func TestFollowerTakesBackItsTrouble(t *testing.T) {
	r := newRig(t)
	require.NoError(t, r.store.WriteStatus(r.ctx(), deploy.Status{Name: "p", Revision: 1,
		Worker: "w1", State: deploy.Running, StateBytes: 77}))
	r.reconcile()
	r.apply("p", "follower one")
	r.find("p", func(st deploy.Status) bool { return st.Follower })
	r.launch.end("one") <- fmt.Errorf("%w: disk full", deploy.ErrTemporary)
	r.await("p", deploy.Restarting, 1)
	r.find("p", func(st deploy.Status) bool { return st.State != deploy.Restarting })
	require.Eventually(t, func() bool {
		reported, err := r.store.Statuses(r.ctx())
		return err == nil && reported[0].State == deploy.Running && reported[0].Error == "" &&
			reported[0].Trouble == nil && reported[0].Worker == "w1"
	}, patience, statusPoll)
}

// TestFollowerTakesBackItsTroubleAlone: also what it said before it was killed, but what worker w3
// said is for w3 to take back.
func TestFollowerTakesBackItsTroubleAlone(t *testing.T) {
	for worker, want := range map[string]deploy.State{
		"w2": deploy.Running, "w3": deploy.Restarting,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			require.NoError(t, r.store.WriteStatus(r.ctx(), deploy.Status{Name: "p", Revision: 1,
				Worker: "w1", State: deploy.Restarting, Error: "worker " + worker + ": disk full"}))
			r.apply("p", "follower one")
			stop := r.reconcile()
			defer stop()
			r.find("p", func(st deploy.Status) bool { return st.Follower })
			time.Sleep(5 * time.Second)
			reported, err := r.store.Statuses(r.ctx())
			require.NoError(t, err)
			require.Equal(t, want, reported[0].State)
		})
	}
}

// TestWhatHasEndedDoesNotRun: what the process itself is asked, as its metrics and its HTTP are,
// says how a pipeline ended, and goes on to say so.
func TestWhatHasEndedDoesNotRun(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "one")
	r.await("p", deploy.Running, 1)
	require.Equal(t, deploy.Running, r.rec.Running()[0].State)
	r.launch.end("one") <- errors.New("a record cannot be processed")
	r.await("p", deploy.Failed, 1)
	require.Eventually(t, func() bool { return r.rec.Running()[0].State == deploy.Failed }, patience,
		statusPoll)
	require.Equal(t, "a record cannot be processed", r.rec.Running()[0].Error)
	r.apply("p", "two")
	r.await("p", deploy.Running, 2)
	require.Equal(t, deploy.Running, r.rec.Running()[0].State)
	require.Empty(t, r.rec.Running()[0].Error)
}

// TestLastWordIsSaidWhenTheBrokerIsBack: a pipeline ends while the broker is away, so what it says
// then cannot be written. It is written when the broker is back.
func TestLastWordIsSaidWhenTheBrokerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.reconcile()
		defer stop()
		r.apply("p", "one")
		r.await("p", deploy.Running, 1)
		r.cluster.Stop()
		r.launch.end("one") <- nil
		r.await("p", deploy.Done, 1)
		time.Sleep(time.Minute)
		r.cluster.Start()
		time.Sleep(time.Minute)
		reported, err := r.store.Statuses(r.ctx())
		require.NoError(t, err)
		require.Equal(t, deploy.Done, reported[0].State)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, st := range r.mu.seen {
			require.NotEqual(t, deploy.Done, st.State, "who is told at once is told once")
		}
	})
}

func TestStopAndStart(t *testing.T) {
	r := newRig(t)
	r.reconcile()
	r.apply("p", "one")
	r.await("p", deploy.Running, 1)
	_, err := r.store.SetWanted(r.ctx(), "p", deploy.WantStopped)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.await("p", deploy.Stopped, 1).RecordsIn)
	_, err = r.store.SetWanted(r.ctx(), "p", deploy.WantRunning)
	require.NoError(t, err)
	r.await("p", deploy.Running, 1)
	require.NoError(t, r.store.Delete(r.ctx(), "p"))
	r.await("p", deploy.Stopped, 1)
	require.Eventually(t, func() bool {
		reported, err := r.store.Statuses(r.ctx())
		return err == nil && len(reported) == 0
	}, patience, statusPoll, "a forgotten pipeline has no status")
	require.Equal(t, "start one, end one, start one, end one", r.launch.said())
}

func TestRestartBringsUpWhatIsWanted(t *testing.T) {
	r := newRig(t)
	stop := r.reconcile()
	r.apply("runs", "one")
	r.apply("stopped", "two")
	r.apply("done", "three")
	r.await("runs", deploy.Running, 1)
	r.await("stopped", deploy.Running, 1)
	r.launch.end("three") <- nil
	r.await("done", deploy.Done, 1)
	_, err := r.store.SetWanted(r.ctx(), "stopped", deploy.WantStopped)
	require.NoError(t, err)
	r.await("stopped", deploy.Stopped, 1)
	stop()

	r.cluster.Restart()
	r.launch = newLauncher()
	r.reconcile()
	r.await("runs", deploy.Running, 1)
	r.await("done", deploy.Running, 1)
	reported, err := r.store.Statuses(r.ctx())
	require.NoError(t, err)
	for _, st := range reported {
		if st.Name == "stopped" {
			require.Equal(t, deploy.Stopped, st.State)
			require.EqualValues(t, 3, st.RecordsIn, "what it did is still known")
		}
	}
	require.NotContains(t, r.launch.said(), "two")
}

// TestPipelinesDoNotWaitForEachOther: one revision cannot be read, another one takes long to build.
func TestPipelinesDoNotWaitForEachOther(t *testing.T) {
	r := newRig(t)
	r.corrupt("unreadable")
	hold := make(chan struct{})
	r.launch.mu.hold["slow"] = hold
	r.apply("slow", "slow")
	r.apply("good", "one")
	r.reconcile()
	r.await("good", deploy.Running, 1)
	require.Contains(t, r.find("unreadable", func(st deploy.Status) bool {
		return st.State == deploy.Failed
	}).Error, "cannot be read")
	r.corrupt("later")
	r.find("later", func(st deploy.Status) bool { return st.State == deploy.Failed })
	r.apply("good", "two")
	r.await("good", deploy.Running, 2)
	close(hold)
	r.await("slow", deploy.Running, 1)
}

// TestOvertakenRevisionIsNotStarted: the log may have an older number behind a newer one when two
// writers hurry.
func TestOvertakenRevisionIsNotStarted(t *testing.T) {
	r := newRig(t)
	first := r.apply("p", "one")
	r.apply("p", "two")
	r.reconcile()
	r.await("p", deploy.Running, 2)
	r.write(first)
	r.apply("q", "three")
	r.await("q", deploy.Running, 1)
	now, err := r.store.Get(r.ctx(), "p")
	require.NoError(t, err)
	require.Equal(t, 2, now.Number)
	require.NotContains(t, r.launch.said(), "one")
}

// TestStoppedBeforeItBegan: a node may be stopped at any moment of its start, and that is no
// failure of what runs the pipelines.
func TestStoppedBeforeItBegan(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	reconciler := deploy.NewReconciler(deploy.ReconcilerOptions{Store: r.store, Launcher: r.launch})
	require.NoError(t, reconciler.Run(ctx))
}
