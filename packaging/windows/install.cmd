@echo off
rem Installs Tickwire: copies it to Program Files, and enters its service. Options of
rem `tickwire service` may follow, for instance: install.cmd --interface "Ethernet 2"
setlocal
if defined ProgramW6432 set "ProgramFiles=%ProgramW6432%"
set "FOLDER=%ProgramFiles%\Tickwire"
set "GROUP=Tickwire Users"
fltmc >nul 2>&1
if errorlevel 1 (
    echo This needs administrator rights: start a console as administrator, and this in it.
    exit /b 1
)
if exist "%FOLDER%\tickwire.exe" (
    echo Tickwire is installed already: uninstall.cmd removes it.
    exit /b 1
)
xcopy /q /y /s /i "%~dp0*.*" "%FOLDER%" >nul
if errorlevel 1 (
    echo The files cannot be copied to "%FOLDER%". uninstall.cmd removes what is there.
    exit /b 1
)
net localgroup "%GROUP%" >nul 2>&1
if errorlevel 1 (
    net localgroup "%GROUP%" /comment:"May run programs on Tickwire's lanes" /add >nul
    if errorlevel 1 echo The group "%GROUP%" cannot be made: only administrators can use Tickwire.
)
"%FOLDER%\tickwire.exe" service --install %*
if errorlevel 1 (
    rmdir /s /q "%FOLDER%"
    exit /b 1
)
net start Tickwire
if errorlevel 1 (
    echo The service does not start: "%FOLDER%\service.log" says why.
    echo Keep that file, and run uninstall.cmd, before you try again.
    exit /b 1
)
echo Tickwire is in "%FOLDER%". Users need to be in the group "%GROUP%":
echo     net localgroup "%GROUP%" USER /add
echo and to log in again.
