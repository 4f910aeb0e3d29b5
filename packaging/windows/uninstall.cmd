@echo off
rem Ends Tickwire's service, and removes it and its folder. The group of its users stays, and so
rem does its configuration.
setlocal
if defined ProgramW6432 set "ProgramFiles=%ProgramW6432%"
set "FOLDER=%ProgramFiles%\Tickwire"
fltmc >nul 2>&1
if errorlevel 1 (
    echo This needs administrator rights: start a console as administrator, and this in it.
    exit /b 1
)
if not exist "%FOLDER%\tickwire.exe" (
    echo Tickwire is not installed in "%FOLDER%".
    exit /b 1
)
"%FOLDER%\tickwire.exe" run --list | find ": starts by " >nul
if not errorlevel 1 (
    echo These services start by Tickwire. For each of them: tickwire run --remove NAME
    "%FOLDER%\tickwire.exe" run --list
    exit /b 1
)
sc query Tickwire >nul 2>&1
if not errorlevel 1 (
    "%FOLDER%\tickwire.exe" service --uninstall
    if errorlevel 1 exit /b 1
)
cd /d "%TEMP%"
rem In one block, which is read before this file is gone.
(
    rmdir /s /q "%FOLDER%"
    if exist "%FOLDER%" (
        echo A program, or the driver, still uses "%FOLDER%". End the programs; `sc stop WinDivert`, or a
        echo restart of Windows, ends the driver. Then remove the folder.
        exit /b 1
    )
    echo Tickwire is removed.
    exit /b 0
)
