package server

import (
	"context"

	"github.com/a2a-taskstore/taskstore/backend"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func (s *service) delete(ctx context.Context, in *taskstorev1.DeleteRequest) (*taskstorev1.DeleteResponse, error) {
	v := s.validator()
	req := &backend.DeleteRequest{Version: in.GetVersion()}
	req.Key, req.Owner = v.taskKey(in.GetScope(), in.GetTaskId())
	if in.Version != nil {
		number(v, "version", in.GetVersion(), 1)
	}
	if err := v.err(); err != nil {
		return nil, err
	}
	deleted, err := s.store.Delete(ctx, req)
	if err != nil {
		return nil, err
	}
	return &taskstorev1.DeleteResponse{Deleted: deleted}, nil
}
