package gnetrdma

import (
	"testing"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/stretchr/testify/require"
)

// addTasks adds tasks of the given kinds. It returns the results of taskQueue.add that
// say whether the loop must be told.
func addTasks(t *testing.T, q *taskQueue, kinds ...taskKind) (posts []bool) {
	for _, kind := range kinds {
		post, err := q.add(task{kind: kind})
		require.NoError(t, err)
		posts = append(posts, post)
	}
	return posts
}

// kindsOf returns the kinds of tasks.
func kindsOf(tasks []task) (kinds []taskKind) {
	for _, t := range tasks {
		kinds = append(kinds, t.kind)
	}
	return kinds
}

// TestTaskQueue checks the order of the tasks, and that the loop is told once for all
// tasks that it takes together.
func TestTaskQueue(t *testing.T) {
	var q taskQueue
	require.Equal(t, []bool{true, false}, addTasks(t, &q, wakeTask, closeTask))
	require.Equal(t, taskPosted, q.state)
	batch := q.take()
	require.Equal(t, taskIdle, q.state)
	require.Equal(t, []taskKind{wakeTask, closeTask}, kindsOf(batch))

	// A task that runs adds another one.
	require.Equal(t, []bool{true}, addTasks(t, &q, writeTask))
	require.Equal(t, []taskKind{wakeTask, closeTask}, kindsOf(batch))
	q.reuse(batch)
	require.Equal(t, task{}, batch[0], "the queue still refers to what a task has used")
	require.Equal(t, []taskKind{writeTask}, kindsOf(q.take()))
	require.Empty(t, q.take())
}

// TestTaskQueueEnd checks that end returns the tasks that wait, and that add fails then.
func TestTaskQueueEnd(t *testing.T) {
	var q taskQueue
	addTasks(t, &q, wakeTask)
	require.Equal(t, []taskKind{wakeTask}, kindsOf(q.end()))
	require.Equal(t, taskEnded, q.state)
	post, err := q.add(task{kind: closeTask})
	require.ErrorIs(t, err, gneterrors.ErrEngineInShutdown)
	require.False(t, post)
	require.Empty(t, q.end())
}

// TestTaskQueueAllocs checks that passing a task to the loop allocates nothing when the
// queue has memory from earlier tasks.
func TestTaskQueueAllocs(t *testing.T) {
	var q taskQueue
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = q.add(task{kind: wakeTask})
		q.reuse(q.take())
	}))
}
