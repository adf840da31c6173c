@rem Copyright The United Authors.
@rem SPDX-License-Identifier: Apache-2.0
@rem kubectl calls this to complete "kubectl united ..." on Windows.
@kubectl-united.exe __complete %*
