package server

import (
	"context"
	"errors"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func (s *service) get(ctx context.Context, in *taskstorev1.GetRequest) (*getReply, error) {
	v := s.validator()
	req := v.get(in)
	if err := v.err(); err != nil {
		return nil, err
	}
	if w := in.GetWait(); w != nil {
		if err := s.admit.wait(callOf(ctx)); err != nil {
			return nil, err
		}
		if err := s.await(ctx, req, w.GetNewerThan(), w.GetTimeout().AsDuration()); err != nil {
			return nil, err
		}
	}
	res, err := s.store.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	reply := &getReply{task: res.Pieces}
	if res.Pieces == nil {
		reply.whole[0] = res.Task
		reply.task = reply.whole[:]
	}
	if err := s.admit.respond(callOf(ctx), reply.weight()); err != nil {
		return nil, err
	}
	out := &reply.rest
	out.Version, out.Owner, out.LastSeq = res.Version, res.Owner, res.LastSeq
	out.CreatedAt, out.UpdatedAt = reply.stamp(0, res.CreatedAt), reply.stamp(1, res.UpdatedAt)
	out.FinalizedAt, out.Now = reply.stamp(2, res.FinalizedAt), reply.stamp(3, res.Now)
	if res.Final {
		out.FinalSeq = &res.FinalSeq
	}
	return reply, nil
}

func (v *validator) get(in *taskstorev1.GetRequest) *backend.GetRequest {
	req := &backend.GetRequest{InPieces: true}
	req.Key, req.Owner = v.taskKey(in.GetScope(), in.GetTaskId())
	req.Extent = backend.Extent{History: v.history(in.HistoryLength), OmitArtifacts: in.GetOmitArtifacts()}
	switch in.GetView() {
	case taskstorev1.TaskView_TASK_VIEW_UNSPECIFIED, taskstorev1.TaskView_TASK_VIEW_FULL:
	case taskstorev1.TaskView_TASK_VIEW_STATE:
		req.Extent = backend.Extent{StateOnly: true}
	default:
		v.fail("view", "is unknown")
	}
	if w := in.GetWait(); w != nil {
		number(v, "wait.newer_than", w.GetNewerThan(), 0)
		v.span("wait.timeout", w.GetTimeout(), maxWait)
	}
	return req
}

// await returns when the task is newer than the version, and after the timeout in any case. A task that is not there may
// still come, also one that was deleted: what is created under its id again has a newer version.
func (s *service) await(ctx context.Context, req *backend.GetRequest, newerThan int64, timeout time.Duration) error {
	s.seen.WaitingGets.Inc()
	defer s.seen.WaitingGets.Dec()
	ctx, stop := whileAllowed(ctx)
	defer stop()
	sub := s.hub.Subscribe(req.Key)
	defer sub.Close()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	probe := &backend.GetRequest{Key: req.Key, Owner: req.Owner, Extent: backend.Extent{StateOnly: true}}
	for {
		res, err := s.store.Get(ctx, probe)
		switch {
		case err == nil && res.Version > newerThan:
			return nil
		case ctx.Err() != nil: // also where the store made something else of it
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, backend.ErrTaskNotFound):
			return err
		}
		select {
		case <-sub.C:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.draining:
			return errDraining(-1)
		}
	}
}
